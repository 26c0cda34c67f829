//! Requests that leave out what a signature must hold, each refused by its code; the usual ones pass.

use super::*;
use hyper::header::{HeaderName, HeaderValue};

const HOST: (&str, &str) = ("host", "s3.example.com");

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |&(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().expect("name");
        (name, HeaderValue::from_str(value).expect("value"))
    };
    let mut out = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        out.append(name, value);
    }
    out
}

fn authorization(signed: &str) -> String {
    format!("{ALGORITHM} Credential=AK/20261123/eu-west-1/s3/aws4_request, SignedHeaders={signed}, Signature=00")
}

fn presigned(signed: &str, expires: &str) -> String {
    format!(
        "/b/k?X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential=AK%2F20261123%2Feu-west-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20261123T000000Z&X-Amz-Expires={expires}&X-Amz-SignedHeaders={signed}&X-Amz-Signature=00"
    )
}

fn code(uri: &str, pairs: &[(&str, &str)]) -> Result<(), &'static str> {
    check(&uri.parse().expect("uri"), &headers(pairs)).map_err(|refusal| refusal.code.as_str())
}

#[test]
fn usual_requests_pass() {
    let signed = authorization("host;x-amz-content-sha256;x-amz-date");
    let with_date =
        [HOST, ("x-amz-date", "20261123T000000Z"), ("x-amz-content-sha256", "00"), ("authorization", &signed)];
    assert_eq!(code("/b/k", &with_date), Ok(()));
    assert_eq!(code("/b/k?versionId=1", &[HOST, ("x-amz-acl", "private")]), Ok(()), "anonymous");
    assert_eq!(code(&presigned("host", "604800"), &[HOST]), Ok(()));
    assert_eq!(code(&presigned("host%3Bx-amz-acl", "1"), &[HOST, ("x-amz-acl", "private")]), Ok(()));
    assert_eq!(code(&presigned("host", "1"), &[HOST, ("x-amz-content-sha256", "00"), ("range", "bytes=0-1")]), Ok(()));
}

#[test]
fn a_header_that_nobody_signed_is_refused() {
    for name in ["x-amz-copy-source", "x-amz-bypass-governance-retention", "x-amz-acl", "x-amz-meta-a", "x-amz-date"] {
        let signed = authorization("host");
        assert_eq!(code("/b/k", &[HOST, (name, "v"), ("authorization", &signed)]), Err("AccessDenied"), "{name}");
        assert_eq!(code(&presigned("host", "60"), &[HOST, (name, "v")]), Err("AccessDenied"), "{name}");
    }
}

#[test]
fn a_signature_without_the_host_is_refused() {
    let signed = authorization("x-amz-date");
    let pairs = [HOST, ("x-amz-date", "20261123T000000Z"), ("authorization", signed.as_str())];
    assert_eq!(code("/b/k", &pairs), Err("AccessDenied"));
    assert_eq!(code(&presigned("range", "60"), &[HOST]), Err("AccessDenied"));
}

#[test]
fn version_2_is_refused() {
    assert_eq!(code("/b/k", &[HOST, ("authorization", "AWS AK:c2ln")]), Err("InvalidRequest"));
    assert_eq!(code("/b/k?AWSAccessKeyId=AK&Expires=4000000000&Signature=c2ln", &[HOST]), Err("InvalidRequest"));
    assert_eq!(code("/b/k?%53ignature=c2ln", &[HOST]), Err("InvalidRequest"), "an encoded name");
}

#[test]
fn a_presigned_url_lives_seven_days_at_most() {
    for expires in ["604801", "4294967295", "99999999999999999999", "-1", "", "1.5"] {
        assert_eq!(code(&presigned("host", expires), &[HOST]), Err("AuthorizationQueryParametersError"), "{expires}");
    }
}

#[test]
fn two_signatures_are_refused() {
    let one = authorization("host");
    assert_eq!(code("/b/k", &[HOST, ("authorization", &one), ("authorization", &one)]), Err("InvalidArgument"));
    assert_eq!(code(&presigned("host", "60"), &[HOST, ("authorization", &one)]), Err("InvalidArgument"));
    let twice = presigned("host", "60") + "&X-Amz-SignedHeaders=host%3Bx-amz-acl";
    assert_eq!(code(&twice, &[HOST, ("x-amz-acl", "private")]), Err("AuthorizationQueryParametersError"));
}

#[test]
fn what_is_no_signature_for_s3_is_refused() {
    let header = |value: &str| code("/b/k", &[HOST, ("authorization", value)]);
    assert_eq!(header("Bearer abc"), Err("InvalidArgument"));
    assert_eq!(header("AWS4-HMAC-SHA256x Credential=a"), Err("InvalidArgument"));
    assert_eq!(header(ALGORITHM), Err("InvalidArgument"));
    let malformed = [
        format!("{ALGORITHM} "),
        authorization("host").replace("/s3/", "/sts/"),
        authorization("host").replace("Signature=", "Sign="),
        authorization("host") + ", SignedHeaders=host;x-amz-acl",
        authorization("host").replace("Credential=", "SignedHeaders=host, Credential="),
    ];
    for value in malformed {
        assert_eq!(header(&value), Err("AuthorizationHeaderMalformed"), "{value}");
    }
    let of_sts = presigned("host", "60").replace("%2Fs3%2F", "%2Fsts%2F");
    assert_eq!(code(&of_sts, &[HOST]), Err("AuthorizationQueryParametersError"));
    let unsigned = presigned("host", "60").replace("&X-Amz-Signature=00", "");
    assert_eq!(code(&unsigned, &[HOST]), Err("AuthorizationQueryParametersError"), "never taken for anonymous");
}
