//! The command `tollgate simulate`.

use std::io::{self, Write};
use std::time::Duration;

use tollgate_charts::Table;
use tollgate_human_text::show_duration;

use crate::fleet::FleetOptions;
use crate::lesson::{Lesson, Shown};
use crate::options::span;
use crate::output::{Output, SimulationResult};
use crate::texts::Texts;

/// Result of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Everything was simulated and written.
    Yes,
    /// Options contradict each other, or a file cannot be written.
    CouldNotTell,
}

/// Show algorithms side by side on one pattern of arrivals, or a fleet that shares a limit.
///
/// Prints tables and charts; --svg and --html write them as files. Nothing connects to a server, and no clock
/// is read: the same options and seed give the same figures on every machine.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate simulate edge
  tollgate simulate all --svg pictures
  tollgate simulate fleet --nodes 16 --rate 5000 --latency 2ms --outage 8s..10s
  tollgate simulate fleet --nodes 8 --html fleet.html --lang zh-CN")]
pub struct Simulate {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Twice the limit around the edge of a fixed window.
    Edge(Options),
    /// A sliding window of few and of many cells.
    Cells(Options),
    /// A burst into a token bucket, and into a leaky bucket that queues.
    Burst(Options),
    /// A rate that warms up, and cools down in a pause.
    WarmUp(Options),
    /// All of these, each with the numbers of its own.
    All(Output),
    /// Nodes that share a limit over a store: exact, leased and local.
    Fleet(Box<FleetOptions>),
}

#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Permits in a window.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: Option<u64>,
    /// Length of the window.
    #[arg(long, value_name = "TIME", value_parser = span)]
    window: Option<Duration>,
    #[command(flatten)]
    output: Output,
}

impl Simulate {
    /// Writes results to `out`, and errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<CommandOutcome> {
        let (found, output) = match self.what {
            What::Edge(options) => (lesson(Lesson::Edge, &options), options.output),
            What::Cells(options) => (lesson(Lesson::Cells, &options), options.output),
            What::Burst(options) => (lesson(Lesson::Burst, &options), options.output),
            What::WarmUp(options) => (lesson(Lesson::WarmUp, &options), options.output),
            What::All(output) => {
                let options = Options { limit: None, window: None, output };
                let found = Lesson::ALL.into_iter().map(|it| lesson(it, &options));
                let found = found.collect::<Result<Vec<_>, _>>().map(|found| found.concat());
                (found, options.output)
            }
            What::Fleet(fleet) => (fleet.run().map(|found| vec![found]), fleet.output),
        };
        let written = match found {
            Ok(found) => output.write(&found, out)?,
            Err(why) => Err(why),
        };
        match written {
            Ok(()) => Ok(CommandOutcome::Yes),
            Err(why) => {
                writeln!(talk, "error: {why}")?;
                Ok(CommandOutcome::CouldNotTell)
            }
        }
    }
}

fn lesson(lesson: Lesson, options: &Options) -> Result<Vec<SimulationResult>, String> {
    let texts = Texts::of(options.output.lang);
    // As in the pages that show them.
    let (limit, window) = match lesson {
        Lesson::Edge | Lesson::Cells => (100, Duration::from_secs(60)),
        Lesson::Burst => (20, Duration::from_secs(1)),
        Lesson::WarmUp => (100, Duration::from_secs(1)),
    };
    let limit = options.limit.unwrap_or(limit);
    let window = options.window.unwrap_or(window);
    let shown = lesson.show(limit, window, texts).map_err(|error| error.to_string())?;
    Ok(vec![found(shown, limit, window, texts)])
}

fn found(shown: Shown, limit: u64, window: Duration, texts: &Texts) -> SimulationResult {
    let columns =
        [texts.algorithm, texts.offered, texts.admitted, texts.denied, texts.most, texts.longest_delay];
    let rows = shown.runs.iter().map(|run| {
        let delay =
            if run.longest_delay.is_zero() { "0".to_owned() } else { show_duration(run.longest_delay) };
        let numbers = [run.offered, run.admitted.len() as u64, run.denied.len() as u64, run.most_in_window];
        let numbers = numbers.map(|number| number.to_string());
        std::iter::once(run.name.clone()).chain(numbers).chain([delay]).collect()
    });
    let runs: Vec<_> = (shown.runs.iter())
        .map(|run| {
            serde_json::json!({
                "algorithm": run.name,
                "offered": run.offered,
                "admitted": run.admitted.len(),
                "denied": run.denied.len(),
                "most_in_window": run.most_in_window,
                "longest_delay_ms": run.longest_delay.as_secs_f64() * 1e3,
            })
        })
        .collect();
    let json = serde_json::json!({
        "pattern": shown.name,
        "limit": limit,
        "window_s": window.as_secs_f64(),
        "runs": runs,
        "series": shown.chart.series.iter().map(|series| &series.points).collect::<Vec<_>>(),
    });
    let title = format!("{} ({limit} / {})", shown.chart.title, show_duration(window));
    SimulationResult {
        about: shown.about.to_owned(),
        table: Table { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect() },
        charts: vec![(shown.name.to_owned(), shown.chart)],
        title,
        json,
    }
}
