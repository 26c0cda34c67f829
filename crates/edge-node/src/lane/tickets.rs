//! Which waiter each reply is for, without a lock or an allocation for each request.
//!
//! Always: a ticket names a slot and the slot's use count, so a late answer to an earlier use of a
//! slot is dropped, never handed to a stranger.
//! Held by: `a_late_answer_never_reaches_a_stranger`.
//! Not here: deadlines (the core answers every request in time).

use base_types::action::Response;
use base_types::Ticket;
use core_node::api::Spent;
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Requests a lane has in hand at most.
pub const REQUESTS_MAX: usize = 65_536;

#[derive(Default)]
struct Slot {
    uses: u32,
    waker: Option<Waker>,
    response: Option<Response>,
    /// Where its time went, if that was much.
    spent: Option<Box<Spent>>,
}

/// The table.
#[derive(Default)]
pub struct Tickets {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    in_use: Cell<usize>,
}

impl Tickets {
    /// A ticket, if there is room.
    pub fn take(&self) -> Option<Ticket> {
        let mut slots = self.slots.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => index,
            None if slots.len() < REQUESTS_MAX => {
                slots.push(Slot::default());
                slots.len() as u32 - 1
            }
            None => return None,
        };
        self.in_use.set(self.in_use.get() + 1);
        Some(Ticket(u64::from(slots[index as usize].uses) << 32 | u64::from(index)))
    }

    /// Hands a response to the waiter; dropped if there is none any more.
    pub fn answer(&self, ticket: Ticket, response: Response) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(ticket.0 as u32 as usize) else { return };
        if u64::from(slot.uses) == ticket.0 >> 32 && slot.response.is_none() {
            slot.response = Some(response);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
    }

    /// Where a request's time went, before its answer.
    pub fn tell_spent(&self, ticket: Ticket, spent: Box<Spent>) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(ticket.0 as u32 as usize) else { return };
        if u64::from(slot.uses) == ticket.0 >> 32 {
            slot.spent = Some(spent);
        }
    }

    /// Takes it.
    pub fn take_spent(&self, ticket: Ticket) -> Option<Box<Spent>> {
        self.slots.borrow_mut()[ticket.0 as u32 as usize].spent.take()
    }

    /// The response, once it is there.
    pub fn poll(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Response> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[ticket.0 as u32 as usize];
        match slot.response.take() {
            Some(response) => Poll::Ready(response),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives a ticket back.
    pub fn give_back(&self, ticket: Ticket) {
        let index = ticket.0 as u32;
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        slot.uses = slot.uses.wrapping_add(1);
        slot.waker = None;
        slot.response = None;
        slot.spent = None;
        self.free.borrow_mut().push(index);
        self.in_use.set(self.in_use.get() - 1);
    }

    /// Requests in hand.
    pub fn in_use(&self) -> usize {
        self.in_use.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::{ErrorCode, Refusal};

    fn response(code: ErrorCode) -> Response {
        Err(Refusal::new(code, "").into())
    }

    #[test]
    fn a_late_answer_never_reaches_a_stranger() {
        let tickets = Tickets::default();
        let mut context = Context::from_waker(Waker::noop());
        let first = tickets.take().unwrap();
        assert!(tickets.poll(first, &mut context).is_pending());
        tickets.give_back(first);
        let second = tickets.take().unwrap();
        assert_eq!(first.0 as u32, second.0 as u32);
        tickets.answer(first, response(ErrorCode::DeadlineExceeded));
        assert!(tickets.poll(second, &mut context).is_pending());
        tickets.answer(second, response(ErrorCode::NotFound));
        tickets.answer(second, response(ErrorCode::Conflict));
        tickets.answer(Ticket(u64::MAX), response(ErrorCode::Internal));
        assert_eq!(tickets.poll(second, &mut context), Poll::Ready(response(ErrorCode::NotFound)));
        tickets.tell_spent(first, Box::default());
        assert_eq!(tickets.take_spent(second), None);
        tickets.tell_spent(second, Box::default());
        tickets.give_back(second);
        assert_eq!(tickets.in_use(), 0);
        assert_eq!(tickets.take_spent(tickets.take().unwrap()), None, "of an earlier use of the slot");
    }
}
