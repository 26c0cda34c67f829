//! Rules, failure domains, scores, elections of members, the node map (Hive paper, 2.4 and 2.8).

/// Where a node stands, widest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Labels {
    pub region: String,
    pub az: String,
    pub rack: String,
    pub chassis: String,
}
