//! What is read from files and exchanged when they change, while connections continue.
//!
//! Always: what is in use has been whole and fitting once; changed files that do not fit leave it in use, and are reported until
//! they do. Held by: `changed_files_are_taken_up_and_bad_ones_left_aside_while_connections_continue`. Not here: what the files hold.

use super::TlsError;
use arc_swap::ArcSwap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// Reads the files; it is given what is in use, where something is.
type Load<T> = Box<dyn Fn(Option<&T>) -> Result<T, TlsError> + Send + Sync>;

/// Something in use, and the files it came from.
pub struct Watched<T> {
    current: ArcSwap<T>,
    /// The first names it in the log.
    files: Vec<PathBuf>,
    load: Load<T>,
    state: Mutex<State>,
    /// Changes with what is in use.
    loads: watch::Sender<()>,
}

struct State {
    stamps: Vec<Option<SystemTime>>,
    problem: Option<String>,
}

impl<T> Watched<T> {
    /// Reads the files; an error refuses the start.
    pub fn begin(
        files: Vec<PathBuf>,
        load: impl Fn(Option<&T>) -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Watched<T>, TlsError> {
        let state = Mutex::new(State { stamps: stamps(&files), problem: None });
        let current = ArcSwap::from_pointee(load(None)?);
        Ok(Watched { current, files, load: Box::new(load), state, loads: watch::Sender::new(()) })
    }

    /// For the next connection.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Says when something else is in use from now on.
    pub fn loads(&self) -> watch::Receiver<()> {
        self.loads.subscribe()
    }

    /// Why the changed files are not in use; `None` where they are.
    pub fn problem(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// Looks whether the files have changed and takes them up. Called now and then by one thread.
    pub fn reload_if_changed(&self) {
        let stamps = stamps(&self.files);
        let changed = self.state.lock().unwrap_or_else(PoisonError::into_inner).stamps != stamps;
        if changed {
            self.reload();
        }
    }

    /// Takes the files up, whether they have changed or not.
    pub fn reload(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner); // Every change is one statement.
                                                                                   // Remembered whether they fit or not: a file half renewed is logged once, not every few seconds.
        state.stamps = stamps(&self.files);
        let certificate = self.files.first().map(|path| path.display().to_string()).unwrap_or_default();
        match (self.load)(Some(&self.current.load())) {
            Ok(found) => {
                self.current.store(Arc::new(found));
                self.loads.send_replace(());
                state.problem = None;
                tracing::info!(certificate, "certificates were read again and are in use for new connections");
            }
            Err(error) => {
                tracing::warn!(certificate, %error, "the changed certificate files are not used, and the earlier ones stay in use: correct the files");
                state.problem = Some(error.to_string());
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok()).collect()
}
