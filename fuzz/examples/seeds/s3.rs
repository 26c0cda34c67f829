//! What clients send to the S3 door: policies, queries, heads of requests, documents, forms.

use crate::Seeds;

const READ: &str = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*""#;

/// Forms for STS, and a session token.
const STS_FORMS: &[&str] = &[
    "Action=GetCallerIdentity&Version=2011-06-15",
    "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=a.b.c&RoleArn=arn%3Aaws%3Aiam%3A%3Ahive%3Arole%2Fdevs&RoleSessionName=ci&DurationSeconds=900",
    "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=%00%ff&Policy={}",
    "HVT1.0011aabb.AAAA",
    "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=a.b.c&Policy=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22s3%3A*%22%2C%22Resource%22%3A%22*%22%7D%7D",
];

/// Adds them.
pub fn add(seeds: &mut Seeds) {
    policies(seeds);
    requests(seeds);
    documents(seeds);
    forms(seeds);
}

fn policies(seeds: &mut Seeds) {
    let mut add = |statement: &str, said: &str| {
        seeds.add("s3_policy", format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}{}{said}"#, '\0'));
    };
    add(&format!("{READ}}}"), "");
    // Of a session.
    add(r#"{"Effect":"Allow","Action":["s3:GetObject","s3:ListAllMyBuckets"],"Resource":"arn:aws:s3:::*/${aws:username}/*"}"#, "aws:username=ann");
    add(
        &format!(r#"{READ},"Condition":{{"StringLike":{{"aws:UserAgent":["*a*b","c?d*"]}}}}}}"#),
        "aws:useragent=xaxbxcxd",
    );
    add(
        &format!(r#"{READ},"Condition":{{"IpAddress":{{"aws:SourceIp":["10.0.0.0/8","::1"]}}}}}}"#),
        "aws:sourceip=10.1.2.3",
    );
    add(
        &format!(r#"{READ},"Condition":{{"DateLessThan":{{"aws:CurrentTime":"2030-01-01T00:00:00Z"}}}}}}"#),
        "aws:currenttime=1",
    );
    add(
        &format!(r#"{READ},"Condition":{{"NumericLessThanEqualsIfExists":{{"s3:max-keys":"10"}}}}}}"#),
        "s3:max-keys=1e3",
    );
    add(
        r#"{"Effect":"Deny","NotPrincipal":{"AWS":["ann"]},"NotAction":"s3:Get*","NotResource":"arn:aws:s3:::bucket/a?*"}"#,
        "a/b",
    );
}

fn requests(seeds: &mut Seeds) {
    for query in [
        "list-type=2&prefix=a%2Fb&%70refix=c&max-keys=10",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20261123%2Feu%2Fs3%2Faws4_request&X-Amz-Date=20261123T000000Z&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature=00",
        "AWSAccessKeyId=AK&Expires=1&Signature=x%3D",
        "a=b&c=d%zz+e",
    ] {
        seeds.add("s3_query", query);
        seeds.add("s3_signature", format!("/b/k?{query}\nhost:h\nx-amz-acl:private"));
    }
    let scope = "Credential=AK/20261123/eu/s3/aws4_request";
    for (signed, more) in [
        ("host;x-amz-content-sha256;x-amz-date", "x-amz-date:20261123T000000Z\nx-amz-content-sha256:00"),
        ("host", "x-amz-copy-source:/a/b"),
        ("host;x-amz-meta-a", "x-amz-meta-a:1\nx-amz-user-agent:x"),
    ] {
        let line = format!("authorization:AWS4-HMAC-SHA256 {scope}, SignedHeaders={signed}, Signature=00");
        seeds.add("s3_signature", format!("/b/k\nhost:h\n{line}\n{more}"));
    }
}

fn documents(seeds: &mut Seeds) {
    let documents = [
        "<AccessControlPolicy><Owner><ID>ann</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>bob</ID></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>",
        "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><MaxAgeSeconds>5</MaxAgeSeconds></CORSRule></CORSConfiguration>",
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part></CompleteMultipartUpload>",
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>",
        "<Delete><Quiet>true</Quiet><Object><Key>a&amp;b</Key><VersionId>v</VersionId></Object></Delete>",
        "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><And><Prefix>a</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>",
        "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>",
        "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>",
        "<?xml version=\"1.0\"?><Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    ];
    for (which, xml) in (0u8..).zip(documents) {
        seeds.add("s3_document", [&[which], xml.as_bytes()].concat());
    }
}

fn forms(seeds: &mut Seeds) {
    // {"expiration": "2026-11-23T13:00:00Z", "conditions": [["starts-with", "$key", "in/"], ["content-length-range", 1, 10]]}
    let policy = "eyJleHBpcmF0aW9uIjogIjIwMjYtMTEtMjNUMTM6MDA6MDBaIiwgImNvbmRpdGlvbnMiOiBbWyJzdGFydHMtd2l0aCIsICIka2V5IiwgImluLyJdLCBbImNvbnRlbnQtbGVuZ3RoLXJhbmdlIiwgMSwgMTBdXX0=";
    let plain =
        [("key", "in/${filename}"), ("acl", "private"), ("x-amz-meta-a", "1"), ("success_action_status", "201")];
    let signed = [
        ("key", "in/a"),
        ("policy", policy),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", "AK/20261123/eu/s3/aws4_request"),
        ("x-amz-date", "20261123T120000Z"),
        ("x-amz-signature", "00ff"),
        ("x-amz-security-token", "HVT2.0011aabb.AAAA"),
    ];
    let tagged = [
        ("key", "k"),
        ("tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
        ("success_action_redirect", "https://example.com/x?y#z"),
    ];
    for (size, fields) in [(1u8, plain.as_slice()), (2, signed.as_slice()), (255, tagged.as_slice())] {
        let mut body = vec![size];
        for (name, value) in fields {
            body.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
        }
        body.extend(b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nhello\r\n--b--\r\n");
        seeds.add("s3_form", body);
    }
    for form in STS_FORMS {
        seeds.add("sts_form", form);
    }
}
