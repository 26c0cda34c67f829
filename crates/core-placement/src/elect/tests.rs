use super::*;
use crate::Labels;

fn node(id: u64, place: &str, score: u32) -> NodeRecord {
    let mut words = place.split('/').map(String::from);
    let mut next = || words.next().unwrap_or_else(|| format!("x{id}"));
    let labels = Labels { region: next(), az: next(), rack: next(), chassis: next() };
    NodeRecord {
        node: NodeId(id),
        labels,
        score,
        up: true,
        engines: alloc::vec!["lmdb".into()],
        ..NodeRecord::default()
    }
}

fn ids(nodes: &[u64]) -> Vec<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

fn run(rule: &str, nodes: &[NodeRecord]) -> Result<Vec<NodeId>, String> {
    elect(&rule.parse().unwrap(), nodes, &[]).map_err(|refusal| refusal.to_string())
}

#[test]
fn the_lowest_score_of_each_domain_goes_first() {
    let nodes = [
        node(1, "fr-par/1/r/a", 500),
        node(2, "fr-par/1/r/b", 100),
        node(3, "fr-par/2/r/a", 300),
        node(4, "nl-ams/1/r/a", 50),
        node(5, "nl-ams/1/r/a", 10),
    ];
    assert_eq!(run("size=3 failure_domain=az", &nodes), Ok(ids(&[5, 2, 3])));
    assert_eq!(run("size=4 failure_domain=chassis", &nodes), Ok(ids(&[5, 2, 3, 1])), "az 1 of two regions is two");
    assert_eq!(run("size=2 location=fr-par failure_domain=az", &nodes), Ok(ids(&[2, 3])));
    assert_eq!(run("size=2 failure_domain=region", &nodes), Ok(ids(&[5, 2])));
    assert_eq!(run("repartition=fr-par:2,nl-ams:1 failure_domain=az", &nodes), Ok(ids(&[5, 2, 3])));
    assert_eq!(run("size=2 failure_domain=az exclude=b,nl-ams/1/r/a", &nodes), Ok(ids(&[3, 1])));
}

#[test]
fn ties_go_by_node_and_spread_moves_them() {
    let nodes: Vec<NodeRecord> = (1..=10).map(|id| node(id, "fr-par", 0)).collect();
    assert_eq!(run("size=3", &nodes), Ok(ids(&[1, 2, 3])));
    let rule = "size=3".parse().unwrap();
    let mut count: BTreeMap<NodeId, usize> = BTreeMap::new();
    for spread in 1..=1000 {
        let elected = elect_spread(&rule, &nodes, &[], spread).unwrap();
        assert_eq!(elected, elect_spread(&rule, &nodes, &[], spread).unwrap());
        for member in elected {
            *count.entry(member).or_default() += 1;
        }
    }
    assert!(count.values().all(|times| (200..400).contains(times)), "{count:?}");
}

/// Every node is up and a member: "3 excluded" sent operators to look for an `exclude` that nobody wrote.
#[test]
fn members_are_passed_over_as_members() {
    let nodes: Vec<NodeRecord> = (1..=3).map(|id| node(id, &format!("fr-par/{id}"), 0)).collect();
    let rule: Rule = "size=3 location=fr-par failure_domain=az".parse().unwrap();
    let message = elect_replacement(&rule, &ids(&[1, 2, 3]), NodeId(3), &nodes, 0).unwrap_err().to_string();
    assert!(message.contains("members already") && !message.contains("excluded"), "{message}");
}

#[test]
fn a_refusal_says_what_is_missing() {
    let mut nodes: Vec<NodeRecord> = (1..=4).map(|id| node(id, &format!("fr-par/{id}"), 0)).collect();
    nodes.push(node(5, "fr-par/5", 0));
    nodes[4].up = false;
    assert_eq!(
        run("size=5 failure_domain=az", &nodes).unwrap_err(),
        "rule wants 5 az in world; only 4 az have a node that is up: fr-par/1, fr-par/2, fr-par/3, fr-par/4 \
         (nodes passed over: 1 down); bring the nodes that are down back, add nodes in another az, or lower size"
    );
    assert_eq!(
        run("size=1 location=nl-ams", &nodes).unwrap_err(),
        "rule wants 1 chassis in nl-ams; no node of the world stands there: check the name, or add nodes"
    );
    let message = run("repartition=fr-par:2,pl-waw:1", &nodes).unwrap_err();
    assert!(
        message.starts_with("rule wants 1 chassis in pl-waw; only 0") && message.ends_with("change repartition"),
        "{message}"
    );
    let message = run("size=1 engine=redb", &nodes).unwrap_err();
    assert!(message.contains("offers engine redb (nodes passed over: 1 down, 4 without the engine)"), "{message}");
    let refusal = elect(&"size=4 failure_domain=az".parse().unwrap(), &nodes, &ids(&[1])).unwrap_err();
    assert_eq!((refusal.excluded, refusal.down, refusal.met_when_up), (1, 1, true));
    assert_eq!(Refusal::from(refusal).code, base_types::ErrorCode::PlacementUnmet);
}

#[test]
fn a_replacement_keeps_the_rule() {
    let mut nodes = alloc::vec![
        node(1, "fr-par/1", 0),
        node(2, "fr-par/2", 0),
        node(3, "fr-par/3", 0),
        node(4, "fr-par/1/r/z", 0),
        node(5, "fr-par/3/r/z", 900),
        node(6, "nl-ams/1", 10),
    ];
    nodes[2].up = false;
    let replace = |rule: &str, nodes: &[NodeRecord]| {
        elect_replacement(&rule.parse().unwrap(), &ids(&[1, 2, 3]), NodeId(3), nodes, 0)
    };
    assert_eq!(replace("size=3 failure_domain=az", &nodes), Ok(NodeId(6)));
    assert_eq!(replace("size=3 failure_domain=az location=fr-par", &nodes), Ok(NodeId(5)), "az 3 is free again");
    assert_eq!(replace("repartition=fr-par:3 failure_domain=az", &nodes), Ok(NodeId(5)));
    assert_eq!(replace("repartition=fr-par:2,nl-ams:1 failure_domain=az", &nodes), Ok(NodeId(6)));
    nodes[4].up = false;
    let refusal = replace("size=3 failure_domain=az location=fr-par", &nodes).unwrap_err();
    assert!(refusal.met_when_up && refusal.to_string().starts_with("rule wants 1 az in fr-par; only 0"), "{refusal}");
}

#[test]
fn a_check_tells_what_is_off() {
    let mut nodes = [node(1, "fr-par/1", 0), node(2, "fr-par/1", 0), node(3, "nl-ams/1", 0)];
    nodes[1].up = false;
    let rule = "size=4 location=fr-par failure_domain=az exclude=x3 repartition=fr-par:4".parse().unwrap();
    assert_eq!(
        check(&rule, &ids(&[1, 2, 3, 9]), &nodes),
        [
            "member node 2 is down",
            "member node 3 stands in nl-ams, outside fr-par",
            "member node 3 stands in excluded chassis x3",
            "member node 9 is not in the node map",
            "member nodes 1, 2 share az fr-par/1",
            "repartition wants 4 members in fr-par; there are 2",
        ]
    );
    assert_eq!(check(&"size=2".parse().unwrap(), &ids(&[1, 3]), &nodes), Vec::<String>::new());
}

/// The twin tries every subset: whenever one obeys the rule, the election finds one that does too.
#[test]
fn a_solution_is_found_whenever_one_exists() {
    let rules = [
        "size=1",
        "size=3",
        "size=3 failure_domain=az",
        "size=2 failure_domain=region",
        "size=2 failure_domain=rack location=r0",
        "size=3 failure_domain=az repartition=r0:2,r1:1",
        "repartition=r0:1,r1:1,r2:1",
        "size=3 exclude=c0",
        "size=4 failure_domain=rack exclude=r1/z0/k0/c0",
    ];
    let (mut met, mut refused) = (0, 0);
    for seed in 0..400u64 {
        let mut state = seed;
        let mut draw = |bound: u64| {
            state = mix(state);
            state % bound
        };
        let count = 1 + draw(7);
        let nodes: Vec<NodeRecord> = (1..=count)
            .map(|id| {
                let place = format!("r{}/z{}/k{}/c{}", draw(3), draw(2), draw(2), draw(2));
                let mut record = node(id, &place, draw(4) as u32);
                record.up = draw(5) > 0;
                record
            })
            .collect();
        for text in rules {
            let rule: Rule = text.parse().unwrap();
            let possible = (0u32..1 << nodes.len()).any(|set| obeys(&rule, &nodes, set));
            match elect(&rule, &nodes, &[]) {
                Ok(members) => {
                    let set = members.iter().fold(0, |set, member| set | 1 << (member.0 - 1));
                    assert!(members.len() == rule.size && obeys(&rule, &nodes, set), "{text} {nodes:?} {members:?}");
                    assert!(check(&rule, &members, &nodes).is_empty());
                    met += 1;
                }
                Err(refusal) => {
                    assert!(!possible, "{text} {nodes:?} {refusal}");
                    refused += 1;
                }
            }
        }
    }
    assert!(met > 300 && refused > 300, "{met} {refused}");
}

fn obeys(rule: &Rule, nodes: &[NodeRecord], set: u32) -> bool {
    let members: Vec<&NodeRecord> =
        nodes.iter().enumerate().filter(|(at, _)| set & 1 << at != 0).map(|(_, record)| record).collect();
    let domains: BTreeSet<String> = members.iter().map(|record| record.labels.domain(rule.failure_domain)).collect();
    members.len() == rule.size
        && domains.len() == members.len()
        && members
            .iter()
            .all(|record| record.up && rule.location.holds(&record.labels.region) && !rule.excludes(&record.labels))
        && rule
            .repartition
            .iter()
            .all(|(region, count)| members.iter().filter(|r| r.labels.region == *region).count() == *count)
}
