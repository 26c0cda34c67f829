//! The score of a node (Hive paper, 2.8): load, disk and occupancy in one number; the lowest is
//! elected first.
//!
//! Always: every number is 0…1000 (`SCORE_MAX`), integers only, so that every node computes it alike.
//! Held by: `a_score_is_the_mean_unless_a_part_is_alarming`.

/// The worst score, and the full scale of each of its parts.
pub const SCORE_MAX: u32 = 1000;
/// A part at or above this is the whole score: an idle processor does not excuse a full disk.
pub const SCORE_ALARM: u32 = 900;
/// A change below this is not worth telling the world at once (`NodeMap`), and two scores closer
/// than this may count as equal when members are spread (`elect_spread`).
pub const SCORE_STEP: u32 = 25;

/// Clusters (and leaderships) at which a node counts as half full.
const OCCUPANCY_HALF: u64 = 1000;

/// One score from the three parts, each 0…1000: their mean, or the worst of them where one is at or
/// above `SCORE_ALARM`.
pub fn score(load: u32, disk: u32, occupancy: u32) -> u32 {
    let parts = [load.min(SCORE_MAX), disk.min(SCORE_MAX), occupancy.min(SCORE_MAX)];
    let worst = parts.into_iter().max().unwrap_or(0);
    if worst >= SCORE_ALARM {
        worst
    } else {
        parts.iter().sum::<u32>() / 3
    }
}

/// How occupied a node is by its clusters, 0…1000. A leadership weighs as much as a replica more. The
/// curve is steep at first and flattens (half at 1,000), so that the tenth cluster is noticed and the
/// hundred thousandth still fits.
pub fn occupancy(clusters: u32, leaders: u32) -> u32 {
    let weight = u64::from(clusters) + u64::from(leaders);
    (weight * u64::from(SCORE_MAX) / (weight + OCCUPANCY_HALF)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_mean_unless_a_part_is_alarming() {
        assert_eq!(score(0, 0, 0), 0);
        assert_eq!(score(300, 300, 300), 300);
        assert_eq!(score(0, 899, 0), 299);
        assert_eq!(score(0, 950, 0), 950);
        assert_eq!(score(5000, 0, 0), 1000);
        assert_eq!((occupancy(0, 0), occupancy(1000, 0), occupancy(500, 500)), (0, 500, 500));
        assert!(occupancy(u32::MAX, u32::MAX) < SCORE_MAX);
        assert!(occupancy(20, 10) > occupancy(10, 10));
    }
}
