//! The console at `/console/`: the files of its page, and what a node remembers for its charts.
//!
//! ```text
//!   GET /console/…         asset()      HTML, CSS and JavaScript that are part of the binary
//!   GET /console/history   History      samples of this node's own counters, six hours of them
//!   POST /                              everything else the page shows or does: the JSON API, as any client asks it
//! ```
//!
//! Always: the files have at most [`ASSETS_BYTES_MAX`] together, name nothing outside this node and hold no inline script or style.
//! Held by: `assets_are_small_and_name_nothing_outside`, `the_page_holds_no_inline_code`.
//! No framework and no build step: what lies in `assets/` is what a browser runs, so a reader and a security review see all of it.
//! Not here: sockets and who may ask (edge-node), what actions do (core-node).
#![deny(missing_docs)]

mod history;

pub use history::{group, Counters, Gauges, Group, Histogram, History, Look, BUCKETS, SAMPLES_MAX, SAMPLE_EVERY};

/// All files of the page together.
pub const ASSETS_BYTES_MAX: usize = 300_000;

/// One file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its path below `/console/`; empty: the page itself.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// Its bytes.
    pub body: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// The files by their names below `assets/`.
macro_rules! assets {
    ($(($kind:expr, $path:literal, $file:literal)),* $(,)?) => {
        &[$(Asset { path: $path, kind: $kind, body: include_str!(concat!("../assets/", $file)) }),*]
    };
}

/// Every file of the page.
pub const ASSETS: &[Asset] = assets![
    (HTML, "", "index.html"),
    (CSS, "console.css", "console.css"),
    (IMAGE, "icon.svg", "icon.svg"),
    (SCRIPT, "main.js", "main.js"),
    (SCRIPT, "api.js", "api.js"),
    (SCRIPT, "dom.js", "dom.js"),
    (SCRIPT, "text.js", "text.js"),
    (SCRIPT, "chart.js", "chart.js"),
    (SCRIPT, "alarms.js", "alarms.js"),
    (SCRIPT, "confirm.js", "confirm.js"),
    (SCRIPT, "views/overview.js", "views/overview.js"),
    (SCRIPT, "views/clusters.js", "views/clusters.js"),
    (SCRIPT, "views/keyspaces.js", "views/keyspaces.js"),
    (SCRIPT, "views/buckets.js", "views/buckets.js"),
    (SCRIPT, "views/traffic.js", "views/traffic.js"),
    (SCRIPT, "views/flows.js", "views/flows.js"),
    (SCRIPT, "views/alarms.js", "views/alarms.js"),
    (SCRIPT, "views/access.js", "views/access.js"),
];

/// What every file is sent with. Scripts, styles and requests: only this node's; nobody may frame the page, and a string never
/// becomes HTML or a script (`require-trusted-types-for`).
pub const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    // Another build may answer at the next request.
    ("cache-control", "no-cache"),
];

/// The file at a path of this node, as `/console/main.js`.
pub fn asset(path: &str) -> Option<&'static Asset> {
    let below = path.strip_prefix("/console/")?;
    ASSETS.iter().find(|asset| asset.path == below)
}

#[cfg(test)]
mod tests;
