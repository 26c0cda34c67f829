//! A trace as a page that a person reads: what broke, the plan of faults, who led when, the time line, the lines.
//!
//! Always: no line is wider than `COLUMNS`; what was cut is said, and how to see it.
//! Not here: which lines there are (`recorder`).

use crate::plan::Plan;
use crate::run::Report;
use crate::trace::line::{About, Line};
use crate::trace::recorder::{Recorder, Reign};
use crate::trace::timeline::{fault_letter, ms, Timeline, COLUMNS};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines of text that a page shows at most.
pub const LINES_MAX: usize = 400;
/// Faults that the head names.
const FAULTS_TOLD_MAX: usize = 30;
/// Clusters whose leaders the head names.
const CLUSTERS_TOLD_MAX: usize = 6;
/// Violations that the head names, as many as a run's failure does.
const VIOLATIONS_TOLD_MAX: usize = 5;
/// Columns of a line before its text: mark, time, node, cluster.
const TEXT_AT: usize = 2 + 1 + 12 + 1 + 5 + 1 + 14 + 1;

/// The whole page. `again` is the command that printed it.
pub fn page(recorder: &mut Recorder, plan: &Plan, report: &Report, again: &str) -> String {
    let lines = recorder.lines();
    let about = leaders_about(recorder);
    let shown = lines.first().zip(lines.last()).map(|(first, last)| (first.at_us, last.at_us));
    let mut out = String::new();
    head(&mut out, recorder, plan, report);
    faults(&mut out, recorder, plan);
    leaders(&mut out, recorder, about.as_ref());
    let filter = recorder.filter();
    let end = recorder.now_us + 1;
    let from_us = filter.from_us.unwrap_or(0).min(end);
    let to_us = filter.to_us.unwrap_or(end).min(end).max(from_us + 1);
    let timeline =
        Timeline { recorder, nodes: plan.shape.nodes as usize, from_us, to_us, about: about.as_ref(), shown };
    let _ = write!(out, "\n{}\n", timeline.draw());
    let _ = writeln!(out, "   {:>12} {:<5} {:<14} event", "time (ms)", "node", "cluster");
    lines.iter().for_each(|line| out += &told(line));
    said_of_cut(&mut out, recorder);
    let _ =
        writeln!(out, "this page: {again}\nfor programs, with the whole text of every line: the same with TRACE=json");
    out
}

fn head(out: &mut String, recorder: &Recorder, plan: &Plan, report: &Report) {
    let shape = &plan.shape;
    let outcome = if report.violations.is_empty() { "passed" } else { "FAILED" };
    let title = if plan.title.is_empty() { String::new() } else { format!(", {}", plan.title) };
    *out += &wrapped("", &format!("seed {}, layer {}{title}: {outcome}", plan.seed, plan.layer.name()));
    for found in report.violations.iter().take(VIOLATIONS_TOLD_MAX) {
        let judged = recorder.violations.iter().find(|judged| judged.message == found.message);
        let when = judged.map_or(String::new(), |judged| format!(" at {} ms", ms(judged.to_us)));
        *out += &wrapped("  !! ", &crate::trace::without_padding(&format!("{}{when}: {}", found.check, found.message)));
    }
    let parts = [
        ("nodes", shape.nodes),
        ("regions", shape.regions),
        ("lanes a node", u64::from(shape.lanes)),
        ("clusters", shape.clusters),
        ("members each", shape.cluster_size),
        ("keyspaces", shape.keyspaces),
        ("buckets", shape.buckets),
        ("clients", plan.load.clients()),
    ];
    let parts: Vec<String> = parts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    *out += &wrapped("world: ", &parts.join(", "));
    let phases: Vec<String> = recorder.phases.iter().map(|(at, name)| format!("{name} {}", ms(*at))).collect();
    *out += &wrapped("phases, from (ms): ", &format!("{}, end {}", phases.join(", "), ms(recorder.now_us)));
}

fn faults(out: &mut String, recorder: &Recorder, plan: &Plan) {
    let all = &recorder.faults;
    let planned = plan.hazards.len();
    let _ = writeln!(out, "\nfaults: {} began, of {planned} in the plan (some begin others)", all.len());
    // Those before the failure say most.
    let until = recorder.violations.iter().map(|found| found.to_us).min().unwrap_or(u64::MAX);
    let before = all.iter().filter(|fault| fault.at_us <= until).count();
    let first = before.saturating_sub(FAULTS_TOLD_MAX);
    if first > 0 {
        let _ = writeln!(
            out,
            "     {first} earlier ones are left out; the lines of FROM=0 TO={} have them",
            all[first].at_us / 1_000
        );
    }
    for (number, fault) in all.iter().enumerate().skip(first).take(FAULTS_TOLD_MAX) {
        let text = fault.hazard.in_words();
        *out += &clipped(format!("  {} {:>12} {text}", fault_letter(number), ms(fault.at_us)));
    }
    let left = all.len().saturating_sub(first + FAULTS_TOLD_MAX);
    if left > 0 {
        let _ = writeln!(out, "     {left} later ones are left out");
    }
}

/// The cluster that leaders are shown of: the one asked for, that of what broke, or the one that changed leaders most.
fn leaders_about(recorder: &Recorder) -> Option<About> {
    let asked = recorder.filter().cluster.as_deref();
    let by_word = |word: &str| recorder.names.values().find(|about| about.answers_to(word)).cloned();
    if let Some(word) = asked {
        return by_word(word);
    }
    let broken = recorder.violations.iter().find_map(|found| match &found.about {
        Some(about) => by_word(&about.name),
        None => recorder.names.values().find(|about| found.message.contains(&*about.name)).cloned(),
    });
    let mut counts: BTreeMap<&About, usize> = BTreeMap::new();
    recorder.reigns.iter().for_each(|reign| *counts.entry(&reign.about).or_default() += 1);
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(about, _)| about.clone());
    broken.or(busiest)
}

fn leaders(out: &mut String, recorder: &Recorder, first: Option<&About>) {
    let mut of_cluster: BTreeMap<&About, Vec<&Reign>> = BTreeMap::new();
    recorder.reigns.iter().for_each(|reign| of_cluster.entry(&reign.about).or_default().push(reign));
    let mut all: Vec<_> = of_cluster.into_iter().collect();
    all.sort_by_key(|(about, reigns)| (Some(*about) != first, std::cmp::Reverse(reigns.len())));
    let _ = writeln!(out, "\nleaders (node, term, from..to in ms):");
    for (about, reigns) in all.iter().take(CLUSTERS_TOLD_MAX) {
        let told = reigns.iter().map(|reign| {
            let to = reign.to_us.map_or("end".to_string(), |to| (to / 1_000).to_string());
            format!("n{} t{} {}..{to}", reign.node + 1, reign.term, reign.from_us / 1_000)
        });
        let told: Vec<String> = told.collect();
        let label = format!("  {:<15} ", about.short());
        // The last reigns, as many as a row takes.
        let mut row = String::new();
        let mut left = told.len();
        for reign in told.iter().rev() {
            if label.len() + row.len() + reign.len() + 20 > COLUMNS {
                break;
            }
            row = if row.is_empty() { reign.clone() } else { format!("{reign}  {row}") };
            left -= 1;
        }
        let earlier = if left > 0 { format!("({left} earlier)  ") } else { String::new() };
        *out += &clipped(format!("{label}{earlier}{row}"));
    }
    if all.len() > CLUSTERS_TOLD_MAX {
        let _ = writeln!(out, "  {} more clusters; CLUSTER= shows one", all.len() - CLUSTERS_TOLD_MAX);
    }
}

/// A page shows so many lines; which ones it leaves out, and how to see them.
fn said_of_cut(out: &mut String, recorder: &Recorder) {
    let cut = recorder.cut;
    let kinds = [
        (cut.events, "events"),
        (cut.messages, "messages and operations"),
        (cut.routine, "routine lines (timers, disks, heartbeats)"),
    ];
    let left: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !left.is_empty() {
        let text = format!("left out: {}. To see them, narrow with FROM= TO= (ms), NODE= or CLUSTER=", left.join(", "));
        *out += &wrapped("   … ", &text);
    }
}

/// One line, cut where the page ends.
fn told(line: &Line) -> String {
    let node = line.node.map_or(String::new(), |node| match line.lane {
        Some(lane) if lane > 0 => format!("n{}.{lane}", node + 1),
        _ => format!("n{}", node + 1),
    });
    let cluster = line.about.as_ref().map_or("", About::short);
    let lasted = line.lasted_us.map_or(String::new(), |us| format!(" ({} ms)", ms(us)));
    let room = COLUMNS - TEXT_AT - lasted.len().min(COLUMNS - TEXT_AT);
    let text = cut_to(&line.text.replace('\n', " "), room);
    let (mark, at) = (line.kind.mark(), format!("{}.{:03}", line.at_us / 1_000, line.at_us % 1_000));
    clipped(format!("{mark} {at:>12} {node:<5.5} {cluster:<14.14} {text}{lasted}"))
}

fn cut_to(text: &str, columns: usize) -> String {
    match text.chars().count() <= columns {
        true => text.to_string(),
        false => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn clipped(text: String) -> String {
    format!("{}\n", cut_to(&text, COLUMNS).trim_end())
}

/// A paragraph, wrapped at words where it can be.
fn wrapped(label: &str, text: &str) -> String {
    let indent = " ".repeat(label.len());
    let mut rows = vec![label.to_string()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = rows.last().map_or(0, |row| row.chars().count());
        if used + 1 + word.len() > COLUMNS && used > label.len() {
            rows.push(indent.clone());
        }
        // A word that no row has room for is broken.
        while word.len() + label.len() > COLUMNS {
            let rest = word.split_off(COLUMNS - label.len());
            if let Some(row) = rows.last_mut() {
                row.extend(word);
            }
            rows.push(indent.clone());
            word = rest;
        }
        if let Some(row) = rows.last_mut() {
            if row.len() > label.len() {
                row.push(' ');
            }
            row.extend(word);
        }
    }
    rows.iter().map(|row| format!("{}\n", row.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::line::Kind;

    #[test]
    fn a_line_has_aligned_columns_and_its_duration_within_the_width() {
        let about = Some(About { name: "metadata/redis@t0".into(), id: Some(7) });
        let line = Line::new(Kind::Leader, "LEADS in term 3").node(1).about(about.clone()).lasted(412_000);
        let line = Line { at_us: 4_123_456, ..line };
        assert_eq!(told(&line), "=>     4123.456 n2    t0             LEADS in term 3 (412 ms)\n");
        let long = Line { text: "word ".repeat(100), ..line };
        let row = told(&long);
        assert_eq!(row.trim_end().chars().count(), COLUMNS);
        assert!(row.ends_with("… (412 ms)\n"), "the duration is kept: {row}");
    }

    #[test]
    fn a_long_violation_is_wrapped_not_cut() {
        let text = wrapped("  !! ", &format!("{} end", "word ".repeat(60) + &"x".repeat(300)));
        assert!(text.lines().all(|row| row.chars().count() <= COLUMNS), "{text}");
        assert!(text.ends_with("end\n") && text.matches("word").count() == 60 && text.matches('x').count() == 300);
    }
}
