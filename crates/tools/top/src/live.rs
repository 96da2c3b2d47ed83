//! The loop: readings from a thread of their own, keys from the terminal, a drawing after each.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tollgate_human_text::with_causes;

use crate::client::{ClientError, HttpClient};
use crate::reading::Reading;
use crate::screen;
use crate::view::{Sort, View};

/// Longest wait for a key before the loop checks for a reading.
const LOOK: Duration = Duration::from_millis(50);

type ReadingResult = Result<Reading, ClientError>;

/// Two readings, `every` apart.
pub(crate) fn two_readings(client: &HttpClient, every: Duration) -> Result<(Reading, Reading), ClientError> {
    let before = client.read()?;
    let (_held, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(every); // nothing is ever sent: it waits
    Ok((before, client.read()?))
}

/// Draws until the user quits. The terminal is restored, even after a panic.
pub(crate) fn watch(client: HttpClient, first: Reading, every: Duration, sort: Sort) -> io::Result<()> {
    let mut view = View::new(&client.shown(), sort);
    view.read(first);
    let (answers, readings) = channel();
    let (stop, stopped) = channel();
    let asker = std::thread::spawn(move || ask(&client, every, &answers, &stopped));
    let mut terminal = ratatui::try_init()?;
    let outcome = run(&mut terminal, &mut view, &readings);
    let given_back = ratatui::try_restore();
    drop(stop);
    drop(readings);
    // It may be in the middle of a reading; the process ends without waiting for that.
    drop(asker);
    outcome.and(given_back)
}

/// Reads at an interval until it is stopped.
fn ask(client: &HttpClient, every: Duration, answers: &Sender<ReadingResult>, stopped: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
        if answers.send(client.read()).is_err() {
            return;
        }
    }
}

fn run(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    readings: &Receiver<ReadingResult>,
) -> io::Result<()> {
    let mut is_changed = true;
    loop {
        while let Ok(answer) = readings.try_recv() {
            match answer {
                Ok(reading) => view.read(reading),
                Err(error) => view.fail(with_causes(&error).to_string()),
            }
            is_changed = true;
        }
        if is_changed {
            terminal.draw(|frame| screen::draw(view, frame))?;
            is_changed = false;
        }
        if event::poll(LOOK)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if press(view, key) {
                        return Ok(());
                    }
                    is_changed = true;
                }
                Event::Resize(..) => is_changed = true,
                _ => {}
            }
        }
    }
}

/// Handles a key; true if the user quits.
fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Up | KeyCode::Char('k') => view.choose(-1),
        KeyCode::Down | KeyCode::Char('j') => view.choose(1),
        KeyCode::PageUp => view.choose(-10),
        KeyCode::PageDown => view.choose(10),
        KeyCode::Home => view.choose(isize::MIN),
        KeyCode::End => view.choose(isize::MAX),
        KeyCode::Char('s') => view.sort_by_next(),
        KeyCode::Char('p' | ' ') => view.is_paused = !view.is_paused,
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{reading, rule};

    #[test]
    fn keys_choose_sort_pause_and_leave() {
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(1, vec![rule("a", 1, 0, &[]), rule("b", 1, 0, &[]), rule("c", 1, 0, &[])], ""));
        let mut press = |code| press(&mut view, KeyEvent::new(code, KeyModifiers::NONE));
        assert!(!press(KeyCode::End) && !press(KeyCode::Char('s')) && !press(KeyCode::Char('p')));
        assert!(press(KeyCode::Char('q')) && press(KeyCode::Esc));
        assert!(!press(KeyCode::Char('c')));
        assert_eq!((view.chosen, view.sort, view.is_paused), (2, Sort::Decisions, true));
    }
}
