//! The words of a command line: options, seeds, ranges, each refused in one clear line.
//!
//! Always: nothing is run before every word was understood.
//! Not here: what the commands do (`main`).

use proof_sim::plan::Layer;

pub const USAGE: &str = "usage: proof-sim run --seeds A..B [--jobs N] [--ledger FILE] [--keep-going] [--no-shrink] [--layer core|lane] | replay SEED [TRACE] [--mutant NAME] | plan SEED | scenario FILE… [TRACE] [--mutant NAME] | shrink SEED|FILE | mutants [--seeds N] [--only NAME,…] [--layer L --leaning E] [--rows FILE] [--from ROWS] [--table FILE] | twice --seeds A..B | availability [--days N] [--hours H] [--from SEED] [--rate R] [--jobs N] [--json FILE] | overload --seeds A..B [--seconds N] [--jobs N] | speed; TRACE is --trace [--node N] [--cluster NAME|ID] [--from MS] [--to MS] [--trace-format text|json]";

/// A refused command line.
pub struct Refused(pub String);

pub type Ran = Result<bool, Refused>;

/// The value behind an option.
pub fn option<'a>(words: &'a [String], name: &str) -> Result<Option<&'a str>, Refused> {
    match words.iter().position(|word| word == name) {
        None => Ok(None),
        Some(at) => match words.get(at + 1) {
            Some(value) if !value.starts_with("--") => Ok(Some(value)),
            _ => Err(Refused(format!("{name} needs a value; {USAGE}"))),
        },
    }
}

pub fn known(words: &[String], options: &[&str]) -> Result<(), Refused> {
    match words.iter().find(|word| word.starts_with("--") && !options.contains(&word.as_str())) {
        None => Ok(()),
        Some(word) => Err(Refused(format!("unknown option '{word}'; {USAGE}"))),
    }
}

pub fn number(text: &str, what: &str) -> Result<u64, Refused> {
    text.parse().map_err(|_| Refused(format!("{what} '{text}' is no number from 0 to {}", u64::MAX)))
}

/// Options that are followed by a value, of commands that take plain words too.
const WITH_VALUE: &[&str] = &["--layer", "--mutant", "--node", "--cluster", "--from", "--to", "--trace-format"];

/// The words that are neither options nor their values.
pub fn plain(words: &[String]) -> Vec<&String> {
    let is_value = |at: usize| at > 0 && WITH_VALUE.contains(&words[at - 1].as_str());
    let found = words.iter().enumerate().filter(|(at, word)| !word.starts_with("--") && !is_value(*at));
    found.map(|(_, word)| word).collect()
}

pub fn seed_word(words: &[String]) -> Result<u64, Refused> {
    let word = plain(words).into_iter().next();
    number(word.ok_or_else(|| Refused(format!("a seed is missing; {USAGE}")))?, "seed")
}

pub fn seed_range(words: &[String]) -> Result<(u64, u64), Refused> {
    let text = option(words, "--seeds")?.ok_or_else(|| Refused(format!("--seeds A..B is missing; {USAGE}")))?;
    let (from, to) =
        text.split_once("..").ok_or_else(|| Refused(format!("seeds '{text}' are no range; write A..B")))?;
    let (from, to) = (number(from, "seed")?, number(to, "seed")?);
    match from < to {
        true => Ok((from, to)),
        false => Err(Refused(format!("seeds '{text}' are an empty range"))),
    }
}

pub fn layer(words: &[String]) -> Result<Layer, Refused> {
    match option(words, "--layer")? {
        None | Some("core") => Ok(Layer::Core),
        Some("lane") => Ok(Layer::Lane),
        Some(other) => Err(Refused(format!("unknown layer '{other}'; core and lane are known"))),
    }
}

pub fn jobs(words: &[String]) -> Result<u64, Refused> {
    let found = option(words, "--jobs")?.map(|text| number(text, "--jobs")).transpose()?;
    Ok(found
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64))
        .clamp(1, 256))
}

/// Whether a word was said.
pub fn flag(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}
