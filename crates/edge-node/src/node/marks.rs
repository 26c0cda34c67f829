//! How far the logs have reached, written down beside them while the node runs: `logs` of hive-node.json.
//!
//! Always: what is written was durable in the log before; a failure costs no more than that an older copy of a log may pass.
//! Held by: `marks_follow_the_logs_while_a_node_runs`.
//! Not here: what a start makes of it (core-cluster, lane/opening.rs; decision 0141).

use crate::data::DataDirectory;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Writes them down every so often, until `stop`'s sender is gone.
pub fn keep(data: &DataDirectory, every: Duration, stop: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(every) {
        write(data);
    }
}

/// Writes them down, if they have grown.
pub fn write(data: &DataDirectory) {
    if let Err(error) = data.write_reached() {
        tracing::warn!(%error, "hive-node.json cannot be written, so the next start could not notice an older copy of a log: make room on the disk");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::NodeId;

    #[test]
    fn marks_follow_the_logs_while_a_node_runs() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(home.path(), "dev", NodeId(1), 2).unwrap();
        let read = || std::fs::read_to_string(home.path().join("hive-node.json")).unwrap();
        assert!(read().contains("\"logs\":[1,1]"), "{}", read());
        std::thread::scope(|scope| {
            let (stop, stopped) = std::sync::mpsc::channel();
            let of_thread = &data;
            let thread = scope.spawn(move || keep(of_thread, Duration::from_millis(5), &stopped));
            for (lane, batch, expected) in [(0, 7, "[7,1]"), (1, 9, "[7,9]"), (0, 3, "[7,9]")] {
                data.note_reached(lane, batch);
                let patience = std::time::Instant::now() + Duration::from_secs(20);
                while !read().contains(expected) && std::time::Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(2));
                }
                assert!(read().contains(&format!("\"logs\":{expected}")), "{}", read());
            }
            // Beside other changes of the same file, of which none is lost.
            for life in 1..200 {
                data.note_reached(0, 10 + life);
                data.set_incarnation(life, 0).unwrap();
                assert!(read().contains(&format!("\"incarnation\":{life},")), "{}", read());
            }
            drop(stop);
            thread.join().unwrap();
        });
        drop(data);
        let again = DataDirectory::open(home.path(), "dev", NodeId(1), 2).unwrap();
        assert_eq!((again.log_reached(1), again.incarnation()), (9, 199));
        assert!(again.log_reached(0) >= 7);
    }
}
