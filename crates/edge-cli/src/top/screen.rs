//! The screen of `hive top`: what is drawn, and what keys do.
//!
//! By design: nothing is shown by colour alone; a narrow or low terminal loses columns and lines at the end, never its first ones.

use super::world::{rate, sorted, Alarm, Glance, HEADS};
use crate::arguments::top::Order;
use crate::failure::Failure;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use ratatui::Frame;
use std::collections::VecDeque;

/// Looks that the curve shows.
const CURVE_MAX: usize = 512;
/// Cells of a frame, left and right.
const FRAME: u16 = 2;
/// The curve's lines, its frame with them; none where the terminal is low.
const CURVE_LINES: u16 = 5;
const CURVE_FROM_LINES: u16 = 16;
/// Lines for alarms at most; more are counted.
const ALARMS_SHOWN: usize = 5;
const KEYS: &str = " q quit   s sort   ↑↓ scroll   p pause   a alarms";
const WIDTHS: [u16; HEADS.len()] = [5, 8, 22, 6, 6, 8, 9, 8, 10, 9, 7, 9, 8, 9];

pub struct Screen {
    order: Order,
    every: u64,
    glance: Glance,
    /// Why the last look failed; the one before stays shown.
    trouble: Option<String>,
    /// Reads and writes a second, oldest first.
    curve: VecDeque<u64>,
    table: TableState,
    paused: bool,
    only_alarms: bool,
}

impl Screen {
    pub fn new(order: Order, every: u64) -> Screen {
        Screen {
            order,
            every,
            glance: Glance::default(),
            trouble: None,
            curve: VecDeque::new(),
            table: TableState::default().with_selected(Some(0)),
            paused: false,
            only_alarms: false,
        }
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// A look ended.
    pub fn take(&mut self, look: Result<Glance, Failure>) {
        match look {
            Ok(glance) => {
                let (reads, writes) = glance.rates();
                if self.curve.len() == CURVE_MAX {
                    self.curve.pop_front();
                }
                self.curve.push_back((reads + writes) as u64);
                (self.glance, self.trouble) = (glance, None);
            }
            Err(failure) => self.trouble = Some(failure.message),
        }
    }

    /// `false`: the user has seen enough.
    pub fn on_key(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('a') => self.only_alarms = !self.only_alarms,
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            _ => {}
        }
        true
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let alarms = self.glance.alarms().len().min(ALARMS_SHOWN) as u16;
        let alarms_high = if alarms == 0 { 0 } else { alarms + 2 };
        let has_curve = !self.only_alarms && frame.area().height >= CURVE_FROM_LINES;
        let [head, curve, nodes, list, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(if has_curve { CURVE_LINES } else { 0 }),
            if self.only_alarms { Constraint::Length(0) } else { Constraint::Min(3) },
            if self.only_alarms { Constraint::Min(3) } else { Constraint::Length(alarms_high) },
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        if has_curve {
            self.draw_curve(frame, curve);
        }
        if !self.only_alarms {
            self.draw_nodes(frame, nodes);
        }
        self.draw_alarms(frame, list);
        let paused = if self.paused { "   PAUSED" } else { "" };
        let text = format!("{KEYS}   sorted by {}, every {} s{paused}", self.order.name(), self.every);
        frame.render_widget(Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM)), keys);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let (text, color) = match &self.trouble {
            Some(trouble) => (format!("NO ANSWER: {trouble}"), Color::Red),
            None if !self.glance.ready => (self.glance.headline(), Color::Red),
            None if self.glance.degraded => (self.glance.headline(), Color::Yellow),
            None => (self.glance.headline(), Color::Green),
        };
        let style = Style::new().fg(color).add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(text).style(style), area);
    }

    fn draw_curve(&self, frame: &mut Frame<'_>, area: Rect) {
        let wide = usize::from(area.width.saturating_sub(2));
        let skipped = self.curve.len().saturating_sub(wide);
        let data: Vec<u64> = self.curve.iter().skip(skipped).copied().collect();
        let most = data.iter().copied().max().unwrap_or_default();
        let title = format!(" requests a second, at most {} ", rate(most as f64));
        frame.render_widget(Sparkline::default().block(Block::bordered().title(title)).data(data), area);
    }

    fn draw_nodes(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let shown = columns_in(area.width.saturating_sub(FRAME));
        let rows = sorted(self.order, &self.glance.nodes).into_iter().map(|node| {
            let style = match node.state() {
                "down" => Style::new().fg(Color::Red),
                "silent" | "leaving" => Style::new().fg(Color::Yellow),
                _ => Style::new(),
            };
            Row::new(node.cells().into_iter().take(shown)).style(style)
        });
        let head = Row::new(HEADS.into_iter().take(shown)).style(Style::new().add_modifier(Modifier::BOLD));
        let table = Table::new(rows, WIDTHS.into_iter().take(shown).map(Constraint::Length))
            .header(head)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(Block::bordered().title(" nodes "));
        frame.render_stateful_widget(table, area, &mut self.table);
    }

    fn draw_alarms(&self, frame: &mut Frame<'_>, area: Rect) {
        let all = self.glance.alarms();
        if all.is_empty() && !self.only_alarms {
            return;
        }
        let shown = if self.only_alarms { all.len() } else { ALARMS_SHOWN };
        let lines: Vec<Line<'_>> = all.iter().take(shown).flat_map(|alarm| lines_of(alarm, self.only_alarms)).collect();
        let title = match &self.glance.alarms {
            Some(all) => format!(" alarms: {} ", all.len()),
            None => " alarms: unknown, no node said ".into(),
        };
        let text = Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered().title(title));
        frame.render_widget(text, area);
    }
}

/// How many of the first columns have room, each with a space after it; the first has it always.
fn columns_in(wide: u16) -> usize {
    let ends = WIDTHS.iter().scan(0, |end, width| {
        *end += width + 1;
        Some(*end - 1)
    });
    ends.take_while(|end| *end <= wide).count().max(1)
}

fn lines_of(alarm: &Alarm, whole: bool) -> Vec<Line<'_>> {
    let (mark, color) = if alarm.bad { ("! ", Color::Red) } else { ("· ", Color::Yellow) };
    let title = Line::from(vec![Span::styled(mark, Style::new().fg(color)), Span::raw(alarm.title.as_str())]);
    let mut lines = vec![title];
    if whole {
        lines.push(Line::from(format!("    {}", alarm.todo)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::world::tests::node;
    use super::super::world::Numbers;
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    fn drawn(screen: &mut Screen, wide: u16, high: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(wide, high)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn glance() -> Glance {
        let numbers =
            Numbers { reads: 12_340.0, writes: 77.0, write_p99_us: 2_500, load_permille: 425, ..Numbers::default() };
        let mut nodes = vec![node(1, Some(numbers)), node(2, None), node(3, None)];
        nodes[2].up = false;
        let alarm = Alarm { bad: true, title: "Node 3 is down".into(), todo: "Start it".into() };
        Glance { world: "dev".into(), asked: 1, ready: true, degraded: true, nodes, alarms: Some(vec![alarm]) }
    }

    #[test]
    fn a_screen_shows_nodes_rates_and_alarms() {
        let mut screen = Screen::new(Order::Node, 2);
        screen.take(Ok(glance()));
        let text = drawn(&mut screen, 150, 24);
        for shown in [
            "world dev · DEGRADED (node 1) · 2 of 3 nodes up",
            "12.3k",
            "2.5 ms",
            "42 %",
            "silent",
            "down",
            "! Node 3 is down",
        ] {
            assert!(text.contains(shown), "{shown} not in\n{text}");
        }
        assert!(!text.contains("Start it"));
        assert!(screen.on_key(KeyCode::Char('a')));
        assert!(drawn(&mut screen, 150, 24).contains("Start it"));
        screen.take(Ok(Glance { alarms: None, ..glance() }));
        assert!(drawn(&mut screen, 150, 24).contains("alarms: unknown"));
        screen.take(Err(Failure::unavailable("nobody answers")));
        assert!(drawn(&mut screen, 150, 24).contains("NO ANSWER: nobody answers"));
        assert!(screen.on_key(KeyCode::Char('p')) && screen.is_paused());
        assert!(!screen.on_key(KeyCode::Char('q')));
    }

    /// Of any size, down to one cell.
    #[test]
    fn a_small_terminal_loses_the_end_and_not_the_begin() {
        let mut screen = Screen::new(Order::Load, 2);
        screen.take(Ok(glance()));
        let text = drawn(&mut screen, 60, 12);
        assert!(text.contains("world dev") && text.contains("NODE") && !text.contains("MEMORY"), "{text}");
        assert!(text.contains("fr-par/1/1/1"), "a column that has room is whole: {text}");
        for (wide, high) in [(1, 1), (3, 200), (300, 2), (10, 5)] {
            drawn(&mut screen, wide, high);
            (0..5).for_each(|_| assert!(screen.on_key(KeyCode::Down)));
        }
    }
}
