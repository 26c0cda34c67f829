//! The door of one thread: what its connections share.
//!
//! By design: everything is of one thread and takes no lock; what threads share is `Database` and `Metrics`.
//! Not here: sockets, TLS, who may come in (edge-node); what a connection does (`conversation.rs`).

use crate::blocked::Blocked;
use crate::clients::Clients;
use crate::database::{Database, Levels};
use crate::gather::Gatherer;
use crate::metrics::Metrics;
use crate::pubsub::Hubs;
use std::rc::Rc;
use std::sync::Arc;

/// The door of a thread.
pub struct Door {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gatherer: Rc<Gatherer>,
    pub(crate) clients: Rc<Clients>,
    pub(crate) blocked: Rc<Blocked>,
    pub(crate) hubs: Rc<Hubs>,
    #[cfg(feature = "scripts")]
    pub(crate) scripts: crate::lua::Scripts,
    /// With which connections begin.
    pub(crate) levels: Levels,
}

impl Door {
    /// Makes it, and starts what works for all its connections on this thread. Within a `LocalSet`.
    pub fn start(database: Arc<dyn Database>, metrics: Arc<Metrics>) -> Rc<Door> {
        let gatherer = Gatherer::new(database.clone());
        tokio::task::spawn_local(gatherer.clone().run());
        let hubs = Hubs::new(database.clone());
        let (clients, blocked) = (Rc::default(), Rc::default());
        Rc::new(Door {
            database,
            metrics,
            gatherer,
            clients,
            blocked,
            hubs,
            #[cfg(feature = "scripts")]
            scripts: Default::default(),
            levels: Levels::default(),
        })
    }
}
