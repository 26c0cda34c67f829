//! `hive top`: a world at a glance, in a terminal.
//!
//! ```text
//!   every few seconds: /alarms, Status, ListNodes ─▶ each node's /console/history ─▶ Glance ─▶ screen
//! ```
//!
//! Always: nothing is changed in the world; at most [`world::NODES_ASKED_MAX`] nodes are asked at a time, each with a time limit,
//! so that a node that hangs delays the others' numbers by that at most; the terminal is given back as it was, also after a panic
//! (`ratatui::init`).
//! Held by: `a_screen_shows_nodes_rates_and_alarms`, `every_order_puts_its_greatest_first`.
//! Not here: what an alarm is (the node's `/alarms`).

mod screen;
mod world;

use crate::arguments::top::{Order, TopArguments};
use crate::failure::Failure;
use crate::output::{output_failed, table};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use screen::Screen;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tokio::sync::mpsc;
use world::{Glance, Observer};

/// Keys that may wait while the screen is drawn.
const KEYS_QUEUED_MAX: usize = 64;

/// Shows the world until the user has seen enough.
pub async fn run(arguments: TopArguments) -> Result<(), Failure> {
    let observer = Observer::new(arguments.world.clone())?;
    if arguments.once || arguments.world.json || !std::io::stdout().is_terminal() {
        let glance = observer.look().await?;
        return print(&glance, arguments.sort, arguments.world.json);
    }
    // The first look before the screen: a wrong endpoint is an error like any other command's.
    let first = observer.look().await?;
    let mut terminal = ratatui::init();
    let keys = listen();
    let shown = show(&mut terminal, keys, &observer, first, &arguments).await;
    ratatui::restore();
    shown.map_err(|error| Failure::refused(format!("the terminal: {error}")))
}

/// Reads keys on a thread of its own; it ends with the process.
fn listen() -> mpsc::Receiver<Event> {
    let (told, heard) = mpsc::channel(KEYS_QUEUED_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if told.blocking_send(event).is_err() {
                return;
            }
        }
    });
    heard
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut keys: mpsc::Receiver<Event>,
    observer: &Observer,
    first: Glance,
    arguments: &TopArguments,
) -> std::io::Result<()> {
    let mut screen = Screen::new(arguments.sort, arguments.every);
    screen.take(Ok(first));
    let every = Duration::from_secs(arguments.every);
    // Keys are read while a look is under way: a world that hangs must not keep its user.
    let mut look = Box::pin(look_after(every, observer));
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        tokio::select! {
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if interrupted || !screen.on_key(key.code) {
                        return Ok(());
                    }
                }
                Some(_) => {}
                None => return Ok(()),
            },
            looked = &mut look, if !screen.is_paused() => {
                screen.take(looked);
                look = Box::pin(look_after(every, observer));
            }
        }
    }
}

async fn look_after(pause: Duration, observer: &Observer) -> Result<Glance, Failure> {
    tokio::time::sleep(pause).await;
    observer.look().await
}

fn print(glance: &Glance, order: Order, json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let text = if json { glance.json().to_string() } else { plain(glance, order) };
    writeln!(out, "{text}").map_err(output_failed)
}

fn plain(glance: &Glance, order: Order) -> String {
    let mut text = format!("{}\n\n", glance.headline());
    let mut nodes = table(world::HEADS);
    for node in world::sorted(order, &glance.nodes) {
        nodes.add_row(node.cells());
    }
    text += &nodes.to_string();
    for alarm in glance.alarms() {
        text += &format!("\n{} {}\n  {}", if alarm.bad { "!" } else { "·" }, alarm.title, alarm.todo);
    }
    text
}
