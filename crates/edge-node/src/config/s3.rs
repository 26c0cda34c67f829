//! The checks of `[s3]`.
//!
//! Always: as `check.rs`: the first finding, with its line and a remedy.
//! Held by: `the_gateway_is_checked_too`.
//! Not here: whether the data store can be opened (the node tries when it starts).

use super::check::{check_listen, Checker};
use super::{ConfigError, NodeFile, S3Config, S3Data, S3Section};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// The most threads of a gateway.
const THREADS_MAX: usize = 64;
/// The most domains.
const DOMAINS_MAX: usize = 16;
/// The most networks of proxies.
const PROXIES_MAX: usize = 64;
/// The longest domain.
const DOMAIN_BYTES_MAX: usize = 253;

/// The proxies that are believed.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Of networks such as `10.0.0.0/8`, and of addresses.
    pub fn new(networks: Vec<IpNet>) -> Proxies {
        Proxies(networks)
    }

    /// Whether this address is a proxy's.
    pub fn lists(&self, address: IpAddr) -> bool {
        // A listener on `[::]` sees addresses of version 4 mapped.
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The gateway's configuration, where there is one. `taken` are the other doors' addresses.
pub(super) fn check(
    checker: &Checker<'_>,
    file: &NodeFile,
    taken: &[SocketAddr],
) -> Result<Option<S3Config>, ConfigError> {
    let Some(section) = &file.s3 else { return Ok(None) };
    let listen = check_listen(checker, "s3", &section.listen)?;
    if listen.port() != 0 && taken.contains(&listen) {
        let what = format!("s3 and another door both listen on {listen}");
        return checker.refuse(what, "give each door a port of its own");
    }
    let region = section.region.clone().unwrap_or_else(|| file.region.name.clone());
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if region.is_empty() || region.len() > 63 || !region.chars().all(legal) {
        let line = checker.line("region =", 0);
        return checker
            .refuse(format!("{line}s3.region is {region:?}"), "use 1 to 63 lower-case letters, digits and hyphens");
    }
    check_domains(checker, "domains", &section.domains)?;
    check_domains(checker, "website_domains", &section.website_domains)?;
    let overlaps = |domain: &&String| section.domains.iter().any(|other| is_below(other, domain));
    if let Some(both) = section.website_domains.iter().find(overlaps) {
        let line = checker.line("website_domains =", 0);
        let remedy = "a bucket below a domain is a website or it is not: give websites a domain that is above none of s3.domains";
        return checker.refuse(
            format!("{line}s3.website_domains has {both:?}, and s3.domains has it too, or one below it"),
            remedy,
        );
    }
    let cores = file.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let threads = section.threads.unwrap_or_else(|| (cores / 2).clamp(1, THREADS_MAX));
    if threads == 0 || threads > THREADS_MAX {
        let line = checker.line("threads =", 0);
        return checker.refuse(format!("{line}s3.threads is {threads}"), "use 1 to 64, or leave it out");
    }
    let data = check_data(checker, section)?;
    let proxies = check_proxies(checker, "s3", &section.proxies)?;
    let older_bucket_defaults = section.older_bucket_defaults;
    Ok(Some(S3Config {
        listen,
        region,
        domains: section.domains.clone(),
        data,
        threads,
        proxies,
        older_bucket_defaults,
        website_domains: section.website_domains.clone(),
    }))
}

/// The proxies of a door.
pub(super) fn check_proxies(checker: &Checker<'_>, door: &str, proxies: &[String]) -> Result<Proxies, ConfigError> {
    if proxies.len() > PROXIES_MAX {
        return checker.refuse(format!("{door}.proxies has {} entries", proxies.len()), "list at most 64");
    }
    let mut networks = Vec::with_capacity(proxies.len());
    for text in proxies {
        let one = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
        let Some(network) = text.parse::<IpNet>().ok().or_else(one) else {
            let line = checker.line(&format!("\"{text}\""), 0);
            let remedy = "write a network or an address, for example 10.0.0.0/8 or 192.0.2.7";
            return checker.refuse(format!("{line}{door}.proxies has {text:?}"), remedy);
        };
        networks.push(network);
    }
    Ok(Proxies::new(networks))
}

/// Whether a domain is this one, or below it.
fn is_below(domain: &str, above: &str) -> bool {
    domain == above || domain.strip_suffix(above).is_some_and(|rest| rest.ends_with('.'))
}

fn check_domains(checker: &Checker<'_>, name: &str, domains: &[String]) -> Result<(), ConfigError> {
    if domains.len() > DOMAINS_MAX {
        return checker.refuse(format!("s3.{name} has {} domains", domains.len()), "list at most 16");
    }
    for domain in domains {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
        let edges = !domain.starts_with(['.', '-']) && !domain.ends_with(['.', '-']);
        if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX || !domain.chars().all(legal) || !edges {
            let line = checker.line(&format!("\"{domain}\""), 0);
            let remedy = "write a domain in lower case as clients send it, with its port if it has one, for example s3.example.org";
            return checker.refuse(format!("{line}s3.{name} has {domain:?}"), remedy);
        }
    }
    Ok(())
}

/// What has `://` in it is a URL, all else a directory.
fn check_data(checker: &Checker<'_>, section: &S3Section) -> Result<S3Data, ConfigError> {
    let text = &section.data;
    if text.is_empty() {
        let remedy = "name a directory that all nodes see, or the URL of an object store (s3://bucket/prefix)";
        return checker.refuse(format!("{}s3.data is empty", checker.line("data = \"\"", 0)), remedy);
    }
    if text.contains("://") {
        if !cfg!(feature = "s3-object-store") {
            let remedy = "name a directory, or build with the feature s3-object-store";
            return checker.refuse(
                format!("{}s3.data is {text:?}, which this build cannot reach", checker.line(text, 0)),
                remedy,
            );
        }
        return Ok(S3Data::Url { url: text.clone(), options: section.data_options.clone() });
    }
    if !section.data_options.is_empty() {
        return checker.refuse("s3.data_options are given, but s3.data is a directory".into(), "remove data_options");
    }
    Ok(S3Data::Directory(checker.resolve(text.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::Proxies;

    #[test]
    fn only_listed_addresses_are_proxies() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        for (address, listed) in [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("11.0.0.1", false), ("::1", true)] {
            assert_eq!(proxies.lists(address.parse().unwrap()), listed, "{address}");
        }
        assert!(!Proxies::default().lists("127.0.0.1".parse().unwrap()));
    }
}
