//! The Redis door's threads.
//!
//! Not here: what one does (`redis/thread.rs`).

use super::doors::Named;
use super::{local_address, NodeHandle, Shared, StartError};
use crate::cores::Cores;
use crate::redis::{thread, Kinds, NodeDatabase, DOOR_PREFIX};
use std::sync::Arc;
use std::time::Instant;

impl NodeHandle {
    /// The Redis door's threads; none where it is not configured.
    pub(super) fn start_redis(
        &mut self,
        shared: &Arc<Shared>,
        cores: &Arc<Cores>,
        listeners: Named,
    ) -> Result<(), StartError> {
        let Some(config) = &shared.config.redis else { return Ok(()) };
        let (opened, openings) = std::sync::mpsc::channel();
        let mut threads: Vec<Vec<_>> = (0..config.threads).map(|_| Vec::new()).collect();
        let started = Instant::now();
        for ((keyspace, listeners), door) in listeners.into_iter().zip(shared.doors_of(DOOR_PREFIX)) {
            let database = Arc::new(NodeDatabase {
                cores: cores.clone(),
                access: shared.access.clone(),
                node: shared.own.node,
                keyspace,
                url: door.url.clone(),
                address: local_address(&listeners),
                started,
                kinds: Kinds::default(),
            });
            for (thread, listener) in threads.iter_mut().zip(listeners) {
                thread.push((database.clone(), listener));
            }
        }
        for (index, listeners) in threads.into_iter().enumerate() {
            let plan = thread::RedisPlan {
                config: config.clone(),
                listeners,
                metrics: shared.redis.clone().unwrap_or_default(),
                limits: shared.http_limits.clone(),
                tls: shared.certificates.clients.clone(),
                certificate_required: shared.config.tls.as_ref().is_some_and(|tls| tls.requires_certificates()),
                room: shared.room.clone(),
                opened: opened.clone(),
            };
            let (stop, drain) = (self.failure.stop.subscribe(), self.failure.drain.subscribe());
            self.spawn(format!("hive-redis-{index}"), Box::new(move || thread::run(plan, stop, drain)))?;
        }
        drop(opened);
        for _ in 0..config.threads {
            let opening = openings.recv().map_err(|_| StartError::Failed { reason: self.reason() })?;
            opening.map_err(|reason| StartError::Redis { reason })?;
        }
        Ok(())
    }
}
