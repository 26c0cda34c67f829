use super::*;
use crate::access::Context;

fn policy(statement: &str) -> Result<Policy, Refusal> {
    Policy::parse(&format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#), "bucket")
}

fn judge(policy: &Policy, caller: &str, action: &str, key: Option<&str>, context: &[(&str, &str)]) -> Verdict {
    let caller = if caller.is_empty() { Caller::Anonymous } else { Caller::Account(caller.into()) };
    let mut found = Context::default();
    context.iter().for_each(|(key, value)| found.set(key, *value));
    policy.judge(&caller, action, "bucket", key, &found)
}

const READ_ALL: &str =
    r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#;

#[test]
fn verdicts() {
    let read_all = policy(READ_ALL).unwrap();
    assert!(read_all.is_public());
    assert_eq!(judge(&read_all, "", "s3:GetObject", Some("a/b"), &[]), Verdict::Allow);
    assert_eq!(judge(&read_all, "", "s3:GetObjectVersion", Some("a"), &[]), Verdict::Silent);
    assert_eq!(judge(&read_all, "", "s3:GetObject", None, &[]), Verdict::Silent);
    let table = [
        // (statements, caller, action, key, verdict)
        (
            r#"{"Effect":"Allow","Principal":{"AWS":"ann"},"Action":"s3:*","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}"#,
            "ann",
            "s3:PutObject",
            Some("k"),
            Verdict::Allow,
        ),
        (
            r#"{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::ann:root"]},"Action":"s3:get*","Resource":"arn:aws:s3:::bucket/in/?"}"#,
            "ann",
            "s3:GetObject",
            Some("in/x"),
            Verdict::Allow,
        ),
        (
            r#"{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::ann:root"]},"Action":"s3:get*","Resource":"arn:aws:s3:::bucket/in/?"}"#,
            "ann",
            "s3:GetObject",
            Some("in/xy"),
            Verdict::Silent,
        ),
        (
            r#"{"Effect":"Allow","Principal":{"CanonicalUser":"ann"},"Action":["s3:ListBucket"],"Resource":"arn:aws:s3:::bucket"}"#,
            "bob",
            "s3:ListBucket",
            None,
            Verdict::Silent,
        ),
        (
            r#"{"Effect":"Deny","NotPrincipal":{"AWS":"ann"},"Action":"*","Resource":"*"}"#,
            "bob",
            "s3:GetObject",
            Some("k"),
            Verdict::Deny,
        ),
        (
            r#"{"Effect":"Deny","NotPrincipal":{"AWS":"ann"},"Action":"*","Resource":"*"}"#,
            "",
            "s3:GetObject",
            Some("k"),
            Verdict::Deny,
        ),
        (
            r#"{"Effect":"Deny","NotPrincipal":{"AWS":"ann"},"Action":"*","Resource":"*"}"#,
            "ann",
            "s3:GetObject",
            Some("k"),
            Verdict::Silent,
        ),
        (
            r#"{"Effect":"Allow","Principal":"*","NotAction":"s3:DeleteObject","NotResource":"arn:aws:s3:::bucket/secret/*"}"#,
            "",
            "s3:GetObject",
            Some("open"),
            Verdict::Allow,
        ),
        (
            r#"{"Effect":"Allow","Principal":"*","NotAction":"s3:DeleteObject","NotResource":"arn:aws:s3:::bucket/secret/*"}"#,
            "",
            "s3:DeleteObject",
            Some("open"),
            Verdict::Silent,
        ),
        (
            r#"{"Effect":"Allow","Principal":"*","NotAction":"s3:DeleteObject","NotResource":"arn:aws:s3:::bucket/secret/*"}"#,
            "",
            "s3:GetObject",
            Some("secret/x"),
            Verdict::Silent,
        ),
    ];
    for (statement, caller, action, key, expected) in table {
        let policy = policy(statement).unwrap_or_else(|refusal| panic!("{statement}: {refusal}"));
        assert_eq!(judge(&policy, caller, action, key, &[]), expected, "{statement} for {caller} {action} {key:?}");
    }
}

#[test]
fn an_explicit_deny_wins_in_any_order() {
    let deny =
        r#"{"Effect":"Deny","Principal":{"AWS":"bob"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#;
    for both in [format!("{READ_ALL},{deny}"), format!("{deny},{READ_ALL}")] {
        let policy = policy(&both).unwrap();
        assert_eq!(judge(&policy, "bob", "s3:GetObject", Some("k"), &[]), Verdict::Deny);
        assert_eq!(judge(&policy, "ann", "s3:GetObject", Some("k"), &[]), Verdict::Allow);
    }
}

#[test]
fn conditions() {
    type Row = (&'static str, &'static [(&'static str, &'static str)], bool);
    let table: &[Row] = &[
        (r#"{"StringEquals":{"s3:prefix":["a","b"]}}"#, &[("s3:prefix", "b")], true),
        (r#"{"StringEquals":{"s3:prefix":["a","b"]}}"#, &[("s3:prefix", "c")], false),
        (r#"{"StringEquals":{"s3:prefix":"a"}}"#, &[], false),
        (r#"{"StringEqualsIfExists":{"s3:prefix":"a"}}"#, &[], true),
        (r#"{"StringNotEquals":{"s3:prefix":["a","b"]}}"#, &[("s3:prefix", "b")], false),
        (r#"{"StringNotEquals":{"s3:prefix":"a"}}"#, &[], true),
        (r#"{"StringLike":{"aws:Referer":"https://*.example/*"}}"#, &[("aws:referer", "https://a.example/x")], true),
        (r#"{"StringNotLike":{"aws:UserAgent":"curl*"}}"#, &[("aws:useragent", "curl/8")], false),
        (r#"{"NumericLessThanEquals":{"s3:max-keys":"10"}}"#, &[("s3:max-keys", "10")], true),
        (r#"{"NumericLessThanEquals":{"s3:max-keys":10}}"#, &[("s3:max-keys", "11")], false),
        (
            r#"{"DateGreaterThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}}"#,
            &[("aws:currenttime", "1600000000")],
            true,
        ),
        (r#"{"DateLessThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}}"#, &[("aws:currenttime", "1600000000")], false),
        (r#"{"Bool":{"aws:SecureTransport":"false"}}"#, &[("aws:securetransport", "false")], true),
        (r#"{"Bool":{"aws:SecureTransport":true}}"#, &[("aws:securetransport", "false")], false),
        (r#"{"IpAddress":{"aws:SourceIp":"10.1.0.0/16"}}"#, &[("aws:sourceip", "10.1.2.3")], true),
        (r#"{"IpAddress":{"aws:SourceIp":["10.1.0.0/16","::1"]}}"#, &[("aws:sourceip", "::1")], true),
        (r#"{"IpAddress":{"aws:SourceIp":"10.1.0.0/16"}}"#, &[("aws:sourceip", "10.2.2.3")], false),
        (r#"{"NotIpAddress":{"aws:SourceIp":"0.0.0.0/0"}}"#, &[("aws:sourceip", "10.2.2.3")], false),
        (r#"{"NumericLessThan":{"s3:max-keys":"5"}}"#, &[("s3:max-keys", "-inf")], false),
        (r#"{"NumericNotEquals":{"s3:max-keys":"5"}}"#, &[("s3:max-keys", "nan")], true),
        (
            r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::an?:*"}}"#,
            &[("aws:principalarn", "arn:aws:iam::ann:root")],
            true,
        ),
        (
            r#"{"ArnEquals":{"aws:PrincipalArn":"arn:*:iam:*:*:r"}}"#,
            &[("aws:principalarn", "arn:aws:iam::ann:root")],
            false,
        ),
        (
            r#"{"ArnNotEquals":{"aws:PrincipalArn":"arn:aws:iam::${aws:username}:root"}}"#,
            &[("aws:principalarn", "arn:aws:iam::ann:root"), ("aws:username", "ann")],
            false,
        ),
        (r#"{"Null":{"s3:x-amz-acl":"true"}}"#, &[], true),
        (r#"{"Null":{"s3:x-amz-acl":"false"}}"#, &[], false),
        (r#"{"StringEquals":{"s3:ExistingObjectTag/Team":"x"}}"#, &[("s3:existingobjecttag/Team", "x")], true),
        (
            r#"{"StringEquals":{"s3:prefix":"a"},"Bool":{"aws:SecureTransport":"true"}}"#,
            &[("s3:prefix", "a"), ("aws:securetransport", "false")],
            false,
        ),
    ];
    for (condition, context, holds) in table {
        let statement = format!(
            r#"{{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::bucket","Condition":{condition}}}"#
        );
        let policy = policy(&statement).unwrap_or_else(|refusal| panic!("{condition}: {refusal}"));
        let expected = if *holds { Verdict::Allow } else { Verdict::Silent };
        assert_eq!(judge(&policy, "ann", "s3:ListBucket", None, context), expected, "{condition} on {context:?}");
    }
}

#[test]
fn what_is_not_understood_is_refused_when_it_is_put() {
    let allow = |rest: &str| {
        format!(
            r#"{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"{rest}}}"#
        )
    };
    let bad = [
        r#"{"Effect":"Maybe","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"ann","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":{"Federated":"x"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::ann:user/x"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","NotPrincipal":{"AWS":"ann"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Deny","NotPrincipal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:Frobnicate","Resource":"arn:aws:s3:::bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::other/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"bucket/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/${aws:UserAgent}/*"}"#.to_owned(),
        r#"{"Effect":"Allow","Principal":{"AWS":"${aws:username}"},"Action":"s3:GetObject","Resource":"*"}"#.to_owned(),
        allow(r#","Conditions":{}"#),
        allow(r#","Condition":{"StringSounds":{"s3:prefix":"a"}}"#),
        allow(r#","Condition":{"ForSomeValues:StringEquals":{"s3:prefix":"a"}}"#),
        allow(r#","Condition":{"ForAnyValue:Null":{"s3:prefix":"true"}}"#),
        allow(r#","Condition":{"StringEquals":{"s3:prefix":"${aws:username"}}"#),
        allow(r#","Condition":{"StringEquals":{"s3:weather":"a"}}"#),
        allow(r#","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/33"}}"#),
        allow(r#","Condition":{"NumericEquals":{"s3:max-keys":"ten"}}"#),
        allow(r#","Condition":{"NumericEquals":{"s3:max-keys":"NaN"}}"#),
        allow(r#","Condition":{"DateLessThan":{"aws:CurrentTime":"inf"}}"#),
        allow(r#","Condition":{"StringEquals":{"s3:LocationConstraint":"fr-par"}}"#),
        allow(r#","Condition":{"ArnLike":{"aws:PrincipalArn":"ann"}}"#),
        allow(r#","Condition":{"BinaryEquals":{"s3:prefix":"YQ=="}}"#),
        allow(r#","Condition":{"NullIfExists":{"s3:prefix":"true"}}"#),
        allow(r#","Condition":[]"#),
    ];
    for statement in bad {
        let refused = policy(&statement).expect_err(&statement);
        assert_eq!(refused.code.as_str(), "MalformedPolicy", "{statement}");
    }
    for text in [
        "",
        "[]",
        "{}",
        "x",
        r#"{"Statement":[]}"#,
        r#"{"Version":"2012-10-17","Statement":[]}"#,
        r#"{"Version":"2020-01-01","Statement":[]}"#,
    ] {
        assert_eq!(Policy::parse(text, "bucket").expect_err(text).code.as_str(), "MalformedPolicy");
    }
    let long =
        format!(r#"{{"Version":"2012-10-17","Id":"{}","Statement":[{READ_ALL}]}}"#, "x".repeat(POLICY_BYTES_MAX));
    assert_eq!(Policy::parse(&long, "bucket").expect_err("too long").code.as_str(), "MalformedPolicy");
}

#[test]
fn public_is_what_nobody_can_name() {
    let with = |principal: &str, condition: &str| {
        policy(&format!(
            r#"{{"Effect":"Allow","Principal":{principal},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*","Condition":{condition}}}"#
        ))
        .unwrap()
        .is_public()
    };
    assert!(with(r#"{"AWS":"*"}"#, "{}"));
    assert!(!with(r#"{"AWS":"ann"}"#, "{}"));
    assert!(!with(r#""*""#, r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#));
    assert!(with(r#""*""#, r#"{"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}}"#));
    assert!(with(r#""*""#, r#"{"StringEquals":{"s3:prefix":"a"}}"#));
    assert!(with(r#"{"AWS":["ann","*"]}"#, "{}"));
    assert!(!with(r#""*""#, r#"{"StringEquals":{"AWS:PrincipalAccount":["ann","bob"]}}"#));
    // Anybody meets what is negated, what holds of who has no such key, and what tests no name.
    assert!(with(r#""*""#, r#"{"StringNotEquals":{"aws:PrincipalAccount":"ann"}}"#));
    assert!(with(r#""*""#, r#"{"StringEqualsIfExists":{"aws:PrincipalAccount":"ann"}}"#));
    assert!(with(r#""*""#, r#"{"Bool":{"aws:SecureTransport":true}}"#));
    let denied = READ_ALL.replace("Allow", "Deny");
    assert!(!policy(&denied).unwrap().is_public());
    assert!(policy(&format!("{denied},{READ_ALL}")).unwrap().is_public());
}

#[test]
fn a_policy_that_takes_too_much_work_lets_nobody_in() {
    let pattern = format!("*{}", "a".repeat(PATTERN_BYTES_MAX - 2));
    let statement = format!(
        r#"{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"*","Condition":{{"StringLike":{{"aws:UserAgent":["{pattern}b","*"]}}}}}}"#
    );
    let policy = policy(&statement).expect("each pattern is short enough");
    let long = "a".repeat(85_000);
    assert_eq!(judge(&policy, "", "s3:GetObject", Some("k"), &[("aws:UserAgent", &long)]), Verdict::TooCostly);
    assert_eq!(judge(&policy, "", "s3:GetObject", Some("k"), &[("aws:UserAgent", "curl")]), Verdict::Allow);
    let denies = statement.replace("Allow", "Deny");
    let denying = super::tests::policy(&denies).expect("denies");
    assert_eq!(judge(&denying, "", "s3:GetObject", Some("k"), &[("aws:UserAgent", &long)]), Verdict::TooCostly);
}

#[test]
fn patterns_and_values_are_bounded_when_they_are_put() {
    let long = "x".repeat(PATTERN_BYTES_MAX + 1);
    let statements = [
        format!(
            r#"{{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/{long}"}}"#
        ),
        format!(
            r#"{{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*","Condition":{{"StringLike":{{"s3:prefix":"{long}"}}}}}}"#
        ),
    ];
    for statement in statements {
        assert_eq!(policy(&statement).expect_err("too long").code.as_str(), "MalformedPolicy");
    }
}

#[test]
fn who_could_be_let_in_at_all() {
    let bob = Caller::Account("bob".to_owned());
    let some = policy(
        r#"{"Effect":"Allow","Principal":{"AWS":"bob"},"Action":"s3:Delete*","Resource":"arn:aws:s3:::bucket/in/*"}"#,
    );
    let some = some.expect("policy");
    assert!(some.might_allow(&bob, "s3:DeleteObject"));
    assert!(!some.might_allow(&bob, "s3:PutObject"));
    assert!(!some.might_allow(&Caller::Anonymous, "s3:DeleteObject"));
}

#[test]
fn variables_are_who_asks() {
    let own = r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/home/${aws:username}/*""#;
    let mine = policy(&format!(r#"{{"Effect":"Allow","Principal":"*",{own}}}"#)).expect("policy");
    let get = |policy: &Policy, user: &str, key: &str| {
        let context = [("aws:username", user)];
        judge(policy, user, "s3:GetObject", Some(key), if user.is_empty() { &[] } else { &context })
    };
    assert_eq!(get(&mine, "ann", "home/ann/x"), Verdict::Allow);
    assert_eq!(get(&mine, "ann", "home/bob/x"), Verdict::Silent);
    assert_eq!(get(&mine, "", "home//x"), Verdict::Silent, "nobody has no home");
    assert_eq!(get(&mine, "*", "home/bob/x"), Verdict::Silent, "a name is no wildcard");
    let others = own.replace("Resource", "NotResource");
    let allow = policy(&format!(r#"{{"Effect":"Allow","Principal":"*",{others}}}"#)).expect("policy");
    let deny = policy(&format!(r#"{{"Effect":"Deny","Principal":"*",{others}}}"#)).expect("policy");
    assert_eq!((get(&allow, "ann", "x"), get(&allow, "ann", "home/ann/x")), (Verdict::Allow, Verdict::Silent));
    assert_eq!((get(&allow, "", "x"), get(&deny, "", "x")), (Verdict::Silent, Verdict::Deny));
    let not = |effect: &str| {
        let condition = r#""Condition":{"StringNotLike":{"s3:prefix":"${aws:username}/*"}}"#;
        policy(&format!(
            r#"{{"Effect":"{effect}","Principal":"*","Action":"s3:ListBucket","Resource":"*",{condition}}}"#
        ))
        .expect("policy")
    };
    let list = |policy: &Policy, user: &str, prefix: &str| {
        let all = [("s3:prefix", prefix), ("aws:username", user)];
        judge(policy, user, "s3:ListBucket", None, if user.is_empty() { &all[..1] } else { &all })
    };
    assert_eq!(list(&not("Deny"), "ann", "ann/x"), Verdict::Silent);
    assert_eq!(list(&not("Deny"), "ann", "bob/x"), Verdict::Deny);
    assert_eq!((list(&not("Deny"), "", "x"), list(&not("Allow"), "", "x")), (Verdict::Deny, Verdict::Silent));
    let old = format!(r#"{{"Version":"2008-10-17","Statement":[{{"Effect":"Allow","Principal":"*",{own}}}]}}"#);
    assert_eq!(Policy::parse(&old, "bucket").expect_err("old").code.as_str(), "MalformedPolicy");
}

#[test]
fn keys_of_several_values() {
    let with = |condition: &str| {
        let statement = r#""Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"*","Condition""#;
        policy(&format!(r#"{{{statement}:{condition}}}"#)).expect(condition)
    };
    let judge = |policy: &Policy, tags: &[&str]| {
        let mut context = Context::default();
        tags.iter().for_each(|tag| context.add("s3:RequestObjectTagKeys", *tag));
        policy.judge(&Caller::Anonymous, "s3:PutObject", "bucket", Some("k"), &context) == Verdict::Allow
    };
    let all = with(r#"{"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["a","b"]}}"#);
    let any = with(r#"{"ForAnyValue:StringLike":{"s3:RequestObjectTagKeys":"a*"}}"#);
    let none = with(r#"{"ForAllValues:StringNotEquals":{"s3:RequestObjectTagKeys":["a","b"]}}"#);
    let exists = with(r#"{"ForAnyValue:StringEqualsIfExists":{"s3:RequestObjectTagKeys":"a"}}"#);
    for (tags, expected) in [
        (&["a", "b"][..], [true, true, false, true]),
        (&["a", "c"], [false, true, false, true]),
        (&["c"], [false, false, true, false]),
        (&[], [true, false, true, true]),
    ] {
        assert_eq!([&all, &any, &none, &exists].map(|policy| judge(policy, tags)), expected, "{tags:?}");
    }
}
