//! What the engines of a node take on its disk, and how much of that they use: of all lanes and clusters together.
//!
//! By design: one thread measures now and then; who asks is given the last numbers. It keeps no engine open.
//! Not here: the logs of the lanes, free space of the disk (monitor.rs).

use base_engine::Engine;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Files that are looked at in one measurement, and how deep in an engine's directory.
const FILES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 3;
/// The unit in which a file's blocks are counted, whatever its file system's are.
const BLOCK_BYTES: u64 = 512;

/// The sizes of the engines that were registered.
#[derive(Default)]
pub struct EngineSizes {
    engines: Mutex<Vec<(Weak<dyn Engine>, PathBuf)>>,
    total: AtomicU64,
    used: AtomicU64,
}

impl EngineSizes {
    /// Measures these, too, each in the directory of its name.
    pub fn register(&self, engines: &[Arc<dyn Engine>], home: &Path) {
        let mut known = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(engines.iter().map(|engine| (Arc::downgrade(engine), home.join(engine.name()))));
    }

    /// Looks at all of them.
    pub fn measure(&self) {
        let engines: Vec<_> = {
            let known = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().filter_map(|(engine, home)| Some((engine.upgrade()?, home.clone()))).collect()
        };
        let (mut total, mut used, mut files) = (0_u64, 0_u64, FILES_MAX);
        for (engine, home) in engines {
            let in_use = engine.statistics().bytes_used;
            used = used.saturating_add(in_use);
            // An engine in memory has no files.
            total = total.saturating_add(allocated(&home, DEPTH_MAX, &mut files).max(in_use));
        }
        self.total.store(total, Relaxed);
        self.used.store(used, Relaxed);
    }

    /// Bytes that are allocated, and bytes of those that are used, as they were measured last.
    pub fn last(&self) -> (u64, u64) {
        (self.total.load(Relaxed), self.used.load(Relaxed))
    }
}

/// The bytes that the files of a directory have on the disk; nothing where they cannot be read.
fn allocated(directory: &Path, depth: usize, files: &mut usize) -> u64 {
    let mut bytes = 0_u64;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if *files == 0 {
            break;
        }
        *files -= 1;
        // Not followed where it is a link.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes = bytes.saturating_add(match metadata.is_dir() {
            true if depth > 0 => allocated(&entry.path(), depth - 1, files),
            true => 0,
            false => metadata.blocks().saturating_mul(BLOCK_BYTES),
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_use_are_added_up() {
        let home = tempfile::tempdir().unwrap();
        let engine: Arc<dyn Engine> = Arc::new(engine_memory::MemoryEngine::new());
        let sizes = EngineSizes::default();
        sizes.register(std::slice::from_ref(&engine), home.path());
        sizes.measure();
        let (total, used) = sizes.last();
        assert_eq!((total, used), (engine.statistics().bytes_used, engine.statistics().bytes_used));
        let inner = home.path().join(engine.name()).join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("file"), vec![7; 100_000]).unwrap();
        sizes.measure();
        assert!(sizes.last().0 >= 100_000 && sizes.last().1 == used, "{:?}", sizes.last());
        drop(engine);
        sizes.measure();
        assert_eq!(sizes.last(), (0, 0), "it keeps no engine");
    }

    #[test]
    fn a_look_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        for n in 0..4 {
            std::fs::write(home.path().join(n.to_string()), vec![7; 10_000]).unwrap();
        }
        let all = allocated(home.path(), 0, &mut 100);
        assert_eq!(allocated(home.path(), 0, &mut 2), all / 2);
        assert_eq!(allocated(&home.path().join("none"), 0, &mut 2), 0);
    }
}
