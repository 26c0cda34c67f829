//! Requests of clients and what they come to.
//!
//! Always: a ticket is answered at most once; it is lost where its node dies.
//! Not here: what clients ask (`load`).

use super::{Answered, Due, World};
use base_types::access::Caller;
use base_types::action::{Request, Response};
use base_types::Ticket;
use core_node::api::Event;
use proof_check::Violation;

impl World {
    pub(super) fn reply(&mut self, node: usize, ticket: Ticket, response: Response) {
        match self.waiting.remove(&ticket) {
            Some((asked, _)) if asked == node => {
                let (late, response) = (self.client_late_us(), Box::new(response));
                match late {
                    0 => self.answers.push_back((ticket, Answered::Response(response))),
                    late => self.schedule(self.now + late, Due::Told { ticket, response }),
                }
            }
            _ if ticket.0 >= self.next_ticket => {
                let message = format!("node {} answered {ticket:?}, which nobody asked", self.nodes[node].id);
                self.violate(Violation::new("replies", message, vec![]));
            }
            // Answered twice, or after a cancel.
            _ => self.probe("answer_nobody_waits_for"),
        }
    }

    /// Somebody asks a node; in a world that wants to know who, through the socket in its data directory. `None`: nobody listens
    /// there.
    pub fn ask(&mut self, node: usize, request: Request) -> Option<Ticket> {
        let caller = if self.plan.shape.access { Caller::Node } else { request.caller };
        self.ask_as(node, Request { caller, ..request })
    }

    /// A client asks a node, as who it is. `None`: nobody listens there.
    pub fn ask_as(&mut self, node: usize, request: Request) -> Option<Ticket> {
        if !self.nodes[node].running {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let life = self.nodes[node].life;
        self.waiting.insert(ticket, (node, life));
        match self.client_late_us() {
            0 => self.arrive(node, life, ticket, request),
            late => {
                let request = Box::new(request);
                self.schedule(self.now + late, Due::Asked { node, life, ticket, request });
            }
        }
        Some(ticket)
    }

    /// How long the way between a client and its node takes, once, while there is load.
    fn client_late_us(&mut self) -> u64 {
        match self.plan.load.late_ms {
            late if late > 0 && self.now < self.load_ends_at => self.random.network.below(late * 1_000),
            _ => 0,
        }
    }

    /// A request is there, if its node is the one that was asked and its client still waits.
    pub(super) fn arrive(&mut self, node: usize, life: u64, ticket: Ticket, request: Request) {
        if !self.is_alive(node, life) || !self.waiting.contains_key(&ticket) {
            return;
        }
        let lane = self.random.host.below(self.nodes[node].lanes.len() as u64) as usize;
        let asked = self.nodes[node].clock.local_at(self.now);
        self.post(node, lane, Event::Request { ticket, asked, request });
    }

    /// The client goes away. True if it was still waited for.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some((node, life)) = self.waiting.remove(&ticket) else { return false };
        if self.is_alive(node, life) {
            // The door knows which core has the ticket; to the others it means nothing.
            for lane in 0..self.nodes[node].lanes.len() {
                self.post(node, lane, Event::Cancel { ticket });
            }
        }
        true
    }
}
