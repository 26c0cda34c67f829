//! The mailbox between threads, under shuttle: the very file `src/mailbox.rs`, with shuttle's lock and
//! threads, run in thousands of orders. A thread that is never woken is a deadlock, and shuttle says so.
//!
//! Checked: nothing lost, nothing doubled, each sender's order kept, the bound held, the line served in
//! order, no wake-up missed, a sender that gives up passes its turn on, closing wakes everybody.
//! A failing order is printed and replayed with `shuttle::replay`.

/// What the mailbox is built on, here.
mod sync {
    pub use shuttle::sync::{Arc, Mutex, MutexGuard};
    pub use shuttle::thread;
}

#[path = "../src/mailbox.rs"]
mod mailbox;

use mailbox::{mailbox, Outgoing, Receiver, Refused};
use shuttle::future::block_on;
use shuttle::thread;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::Poll;

/// Orders tried at random for each story, and as many drawn by the PCT scheduler (few, well-placed switches).
const ORDERS: usize = 1_500;
const PCT_DEPTH: usize = 3;

/// A letter: its sender and its number there.
type Letter = (usize, usize);

fn in_many_orders(story: fn()) {
    shuttle::check_random(story, ORDERS);
    shuttle::check_pct(story, ORDERS, PCT_DEPTH);
}

/// Takes until `count` letters are there; at most `bound` at once, as no more may ever wait.
fn take(receiver: &mut Receiver<Letter>, count: usize, bound: usize) -> Vec<Letter> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut some = Vec::new();
        block_on(poll_fn(|context| receiver.poll_take(context, &mut some, usize::MAX)));
        assert!(!some.is_empty(), "woken for nothing, and nobody closed it");
        assert!(some.len() <= bound, "{} letters waited; the bound is {bound}", some.len());
        all.extend(some);
    }
    all
}

/// Every letter of every sender once, in its order.
fn check(letters: &[Letter], senders: usize, each: usize) {
    assert_eq!(letters.len(), senders * each);
    for sender in 0..senders {
        let numbers: Vec<usize> = letters.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n).collect();
        assert_eq!(numbers, (0..each).collect::<Vec<_>>(), "letters of sender {sender}");
    }
}

#[test]
fn nothing_is_lost_doubled_or_reordered_and_the_bound_holds() {
    in_many_orders(|| {
        const EACH: usize = 3;
        const BOUND: usize = 2;
        let (sender, mut receiver) = mailbox::<Letter>(BOUND);
        let (blocking, waiting, trying) = (sender.clone(), sender.clone(), sender);
        let threads = [
            thread::spawn(move || (0..EACH).for_each(|n| blocking.send_blocking((0, n)).expect("open"))),
            thread::spawn(move || (0..EACH).for_each(|n| block_on(waiting.send((1, n))).expect("open"))),
            thread::spawn(move || {
                for n in 0..EACH {
                    while let Err(refused) = trying.try_send((2, n)) {
                        assert_eq!(refused, Refused::Full((2, n)), "the letter comes back");
                        thread::yield_now();
                    }
                }
            }),
        ];
        check(&take(&mut receiver, 3 * EACH, BOUND), 3, EACH);
        threads.into_iter().for_each(|thread| thread.join().expect("it sent"));
    });
}

#[test]
fn a_receiver_that_waits_is_always_woken() {
    in_many_orders(|| {
        let (sender, mut receiver) = mailbox::<Letter>(1);
        let thread = thread::spawn(move || (0..3).for_each(|n| sender.send_blocking((0, n)).expect("open")));
        for n in 0..3 {
            assert_eq!(take(&mut receiver, 1, 1), [(0, n)]);
        }
        thread.join().expect("it sent");
    });
}

#[test]
fn closing_wakes_everybody() {
    in_many_orders(|| {
        let (sender, mut receiver) = mailbox::<Letter>(1);
        sender.try_send((9, 0)).expect("it is empty");
        let (blocking, waiting) = (sender.clone(), sender.clone());
        let threads = [
            thread::spawn(move || blocking.send_blocking((0, 0))),
            thread::spawn(move || block_on(waiting.send((1, 0)))),
        ];
        // A lane that stops: it closes, and only later is dropped.
        receiver.close();
        let came_back = threads.into_iter().map(|thread| thread.join().expect("it ended"));
        for (number, result) in came_back.enumerate() {
            assert_eq!(result, Err((number, 0)), "nothing is taken from a full mailbox that closes");
        }
        assert_eq!(sender.try_send((2, 0)), Err(Refused::Closed((2, 0))));
        let mut nothing = Vec::new();
        block_on(poll_fn(|context| receiver.poll_take(context, &mut nothing, 1)));
        assert!(nothing.is_empty(), "what waited is dropped");
    });
}

#[test]
fn a_receiver_that_is_dropped_wakes_everybody() {
    in_many_orders(|| {
        let (sender, receiver) = mailbox::<Letter>(1);
        let thread = thread::spawn(move || {
            let mut sent = 0;
            while sender.send_blocking((0, sent)).is_ok() {
                sent += 1;
            }
            sent
        });
        drop(receiver);
        assert!(thread.join().expect("it ended") <= 1, "only what had room was taken");
    });
}

#[test]
fn whoever_gives_up_passes_the_turn_on() {
    in_many_orders(|| {
        let (sender, mut receiver) = mailbox::<Letter>(1);
        sender.try_send((0, 0)).expect("it is empty");
        let (fickle, patient) = (sender.clone(), sender);
        let first = thread::spawn(move || {
            // Asks once, and is gone: a connection that closes while its frame waits.
            let mut sending = pin!(fickle.send((1, 0)));
            let asked = block_on(poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))));
            usize::from(asked.is_ready())
        });
        let second = thread::spawn(move || patient.send_blocking((2, 0)).expect("open"));
        let head = take(&mut receiver, 1, 1);
        assert_eq!(head, [(0, 0)]);
        let fickle_sent = {
            let mut rest = take(&mut receiver, 1, 1);
            let sent = first.join().expect("it ended");
            if rest.len() < sent + 1 {
                rest.extend(take(&mut receiver, sent + 1 - rest.len(), 1));
            }
            assert!(rest.contains(&(2, 0)), "the patient one got through: {rest:?}");
            rest.contains(&(1, 0))
        };
        second.join().expect("it sent");
        let _either_way = fickle_sent;
    });
}

#[test]
fn the_line_is_served_in_the_order_of_asking() {
    // One thread: there is one order.
    let story = || {
        let (sender, mut receiver) = mailbox::<Letter>(1);
        sender.try_send((0, 0)).expect("it is empty");
        let mut one = pin!(sender.send((1, 0)));
        let mut two = pin!(sender.send((2, 0)));
        let poll = |sending: &mut std::pin::Pin<&mut mailbox::Sending<'_, Letter>>| {
            block_on(poll_fn(|context| Poll::Ready(sending.as_mut().poll(context).is_ready())))
        };
        assert!(!poll(&mut one) && !poll(&mut two));
        assert_eq!(take(&mut receiver, 1, 1), [(0, 0)]);
        // There is room, but the line is not empty: nobody overtakes.
        assert!(matches!(sender.try_send((3, 0)), Err(Refused::Full(_))));
        assert!(!poll(&mut two), "the second waits for the first");
        assert!(poll(&mut one));
        assert_eq!(take(&mut receiver, 1, 1), [(1, 0)]);
        assert!(poll(&mut two));
        assert_eq!(take(&mut receiver, 1, 1), [(2, 0)]);
    };
    shuttle::check_random(story, 1);
}

#[test]
fn lanes_that_flood_each_other_do_not_block_and_keep_the_order() {
    in_many_orders(|| {
        const EACH: usize = 4;
        let (to_one, one) = mailbox::<Letter>(1);
        let (to_two, two) = mailbox::<Letter>(1);
        let lane = |number: usize, mut receiver: Receiver<Letter>, mate| {
            thread::spawn(move || {
                let mut outgoing = Outgoing::new(vec![mate], EACH);
                let mut taken = Vec::new();
                for n in 0..EACH {
                    assert!(outgoing.send(0, (number, n)), "no more is kept back than may be");
                }
                // As a lane's turns: take what is there, try again with what was kept back.
                while taken.len() < EACH || outgoing.is_congested() {
                    let mut some = Vec::new();
                    let poll = |context: &mut std::task::Context<'_>| {
                        Poll::Ready(receiver.poll_take(context, &mut some, usize::MAX).is_ready())
                    };
                    block_on(poll_fn(poll));
                    taken.extend(some);
                    outgoing.send_kept();
                    thread::yield_now();
                }
                taken
            })
        };
        let (first, second) = (lane(0, one, to_two), lane(1, two, to_one));
        let taken: Vec<Letter> =
            [first, second].into_iter().flat_map(|thread| thread.join().expect("it ended")).collect();
        check(&taken, 2, EACH);
    });
}

#[test]
fn more_kept_back_than_may_be_is_told() {
    shuttle::check_random(
        || {
            let (sender, _receiver) = mailbox::<Letter>(1);
            let mut outgoing = Outgoing::new(vec![sender], 2);
            assert_eq!(outgoing.mates(), 1);
            let told: Vec<bool> = (0..4).map(|n| outgoing.send(0, (0, n))).collect();
            assert_eq!(told, [true, true, true, false]);
        },
        1,
    );
}
