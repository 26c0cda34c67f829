//! The gateway as an HTTP service: signatures, path and virtual-host style, refusals without a body read.

use crate::auth::DecidedByCalls;
use crate::gateway::{Gateway, Peer};
use crate::validate;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CONNECTION};
use hyper::{Method, Request, Response};
use s3s::host::{DomainError, MultiDomain};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError};

/// How requests are read.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// The domains below which a bucket is a host (`bucket.domain`); path style where empty.
    pub domains: Vec<String>,
}

/// The names S3 takes. Shorter and older ones are refused too: a bucket of such a name cannot be made.
struct Names;

impl NameValidation for Names {
    fn validate_bucket_name(&self, name: &str) -> bool {
        validate::is_bucket_name(name)
    }
}

/// A service that any hyper server can run.
#[derive(Clone)]
pub struct Service {
    inner: S3Service,
}

impl Service {
    /// Over a gateway.
    pub fn new(gateway: Gateway, config: &ServiceConfig) -> Result<Service, DomainError> {
        let keys = gateway.keys();
        let mut builder = S3ServiceBuilder::new(gateway);
        builder.set_auth(keys);
        builder.set_access(DecidedByCalls);
        builder.set_validation(Names);
        if !config.domains.is_empty() {
            builder.set_host(MultiDomain::new(&config.domains)?);
        }
        Ok(Service { inner: builder.build() })
    }

    /// Answers one request.
    pub async fn answer(&self, mut request: Request<Incoming>, peer: Peer) -> Result<Response<Body>, HttpError> {
        request.extensions_mut().insert(peer);
        let may_have_body = matches!(*request.method(), Method::PUT | Method::POST);
        let mut response = self.inner.call(request.map(Body::from)).await?;
        if may_have_body && !response.status().is_success() {
            // A refusal can come before the body was read. The client that waits for `100 Continue` will
            // never send it, and its next request on this connection would be taken for it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}
