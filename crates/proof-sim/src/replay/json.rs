//! A trace for programs: one JSON object a line; first the run, then what happened, in order of time.
//!
//! ```text
//! {"kind":"run","seed":17,"layer":"core","failed":true,"violations":[…],"cut":{…}}
//! {"kind":"leader","at_us":4123456,"node":2,"lane":0,"cluster":"metadata/redis@t0","lasted_us":412000,"text":"LEADS in term 3"}
//! ```
//!
//! Always: nodes count from 1; text is whole; what is not known is left out.
//! Not here: which lines there are (`recorder`).

use crate::plan::Plan;
use crate::run::Report;
use crate::trace::line::Line;
use crate::trace::recorder::Recorder;
use serde_json::{json, Value};

/// Lines that a program is given at most.
pub const LINES_MAX: usize = 200_000;

/// The whole trace.
pub fn lines(recorder: &mut Recorder, plan: &Plan, report: &Report) -> String {
    let lines = recorder.lines();
    let judged = recorder.violations.iter().map(|found| {
        let (check, message) = (found.check, &found.message);
        json!({ "check": check, "message": message, "from_us": found.from_us, "to_us": found.to_us })
    });
    let faults = recorder.faults.iter().map(|fault| json!({ "at_us": fault.at_us, "fault": fault.hazard.in_words() }));
    let cut = recorder.cut;
    let head = json!({
        "kind": "run",
        "seed": plan.seed,
        "layer": plan.layer.name(),
        "title": plan.title,
        "failed": !report.violations.is_empty(),
        "violations": judged.collect::<Vec<Value>>(),
        "faults": faults.collect::<Vec<Value>>(),
        "phases": recorder.phases.iter().map(|(at, name)| json!({ "at_us": at, "phase": name })).collect::<Vec<_>>(),
        "end_us": recorder.now_us,
        "trace": format!("{:016x}", report.trace_hash),
        "cut": { "events": cut.events, "messages": cut.messages, "routine": cut.routine },
    });
    let mut text = format!("{head}\n");
    lines.iter().for_each(|line| text += &format!("{}\n", told(line)));
    text
}

fn told(line: &Line) -> Value {
    let mut told = json!({ "kind": line.kind.name(), "at_us": line.at_us, "text": line.text });
    let numbers = [
        ("node", line.node.map(|node| node as u64 + 1)),
        ("peer", line.peer.map(|peer| peer as u64 + 1)),
        ("lane", line.lane.map(|lane| lane as u64)),
        ("cluster_id", line.about.as_ref().and_then(|about| about.id)),
        ("lasted_us", line.lasted_us),
        ("record", line.record),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            told[name] = json!(number);
        }
    }
    if let Some(about) = &line.about {
        told["cluster"] = json!(&*about.name);
    }
    told
}
