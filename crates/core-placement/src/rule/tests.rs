use super::*;

fn parse(text: &str) -> Result<Rule, RuleError> {
    text.parse()
}

#[test]
fn the_papers_rule_parses() {
    let rule = parse("size=5 location=fr-par failure_domain=az consistency=strong read_consistency=strong").unwrap();
    assert_eq!(rule.size, 5);
    assert_eq!(rule.location, Location::Region("fr-par".into()));
    assert_eq!(rule.failure_domain, FailureDomain::Az);
    assert_eq!(rule.consistency, WriteConsistency::Strong);
    assert_eq!(rule.read_consistency, ReadConsistency::Strong);
    let rule = parse("repartition=fr-par:2,nl-ams:2,pl-waw:1 size=5 failure_domain=az exclude=c1").unwrap();
    assert_eq!(rule.repartition, [("fr-par".into(), 2), ("nl-ams".into(), 2), ("pl-waw".into(), 1)]);
    assert_eq!(rule.exclude, ["c1"]);
}

#[test]
fn absent_words_have_defaults() {
    assert_eq!(parse("").unwrap(), Rule::default());
    assert_eq!(
        Rule::default().to_string(),
        "size=3 location=world failure_domain=chassis consistency=strong read_consistency=strong"
    );
    assert_eq!(parse("repartition=a:2,b:3").unwrap().size, 5, "a repartition alone says the size");
}

#[test]
fn what_is_shown_parses_to_the_same() {
    for text in [
        "",
        "size=1 location=fr-par engine=lmdb",
        "size=5 failure_domain=az repartition=fr-par:2,nl-ams:2,pl-waw:1 exclude=c1,fr-par/1/r2/c9 engine=memory",
        "size=3 failure_domain=region consistency=hopeful read_consistency=eventual",
        "failure_domain=rack consistency=absolute",
    ] {
        let rule = parse(text).unwrap();
        assert_eq!(parse(&rule.to_string()).unwrap(), rule, "{text}");
    }
}

#[test]
fn bad_rules_are_refused_and_name_the_word() {
    let cases = [
        ("size", "'size' has no '='"),
        ("sise=3", "'sise' is unknown; known are size"),
        ("size=3 size=3", "'size' is there twice"),
        ("size=three", "'three'"),
        ("size=+3", "'+3'"),
        ("size=-1", "'-1'"),
        ("size=", "whole number"),
        ("size=99999999999999999999999", "whole number"),
        ("size=0", "size=0"),
        ("size=64", "write 1 to 63"),
        ("location=", "label 'location' is empty"),
        ("location=fr/par", "holds '/'"),
        ("failure_domain=room", "known are chassis, rack, az, region"),
        ("consistency=weak", "consistency=weak"),
        ("read_consistency=absolute", "reads know eventual, strong"),
        ("repartition=fr-par", "write region:count"),
        ("repartition=fr-par:0", "write region:count"),
        ("repartition=:1", "write region:count"),
        ("size=2 repartition=a:1,a:1", "names region 'a' twice"),
        ("size=4 repartition=a:1,b:2", "size=4, but its repartition places 3"),
        ("size=2 location=a repartition=a:1,b:1", "names region 'b'"),
        ("size=3 failure_domain=region repartition=a:2,b:1", "failure_domain=region"),
        ("size=3 failure_domain=region location=a", "failure_domain=region"),
        ("exclude=", "label 'exclude' is empty"),
        ("exclude=a,a", "twice"),
        ("engine=a:b", "holds ':'"),
    ];
    for (text, part) in cases {
        let message = parse(text).expect_err(text).to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    assert!(matches!(parse(&"x".repeat(RULE_BYTES_MAX + 1)), Err(RuleError::TooLong(_))));
    let refusal = Refusal::from(parse("sise=3").unwrap_err());
    assert_eq!((refusal.code.as_str(), refusal.kind()), ("InvalidRule", base_types::ErrorKind::Invalid));
}
