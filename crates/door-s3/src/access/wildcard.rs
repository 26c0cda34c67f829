//! `*` and `?` in policies' actions and resources.
//!
//! Always: the byte after [`LITERAL`] stands for itself; no policy that is put has that byte.
//! Held by: `a_hostile_pattern_ends_with_its_steps`.

/// How much work one decision may take, in bytes looked at by patterns: under a millisecond.
pub const STEPS_MAX: u32 = 250_000;

/// The byte after this one in a pattern is no wildcard.
pub const LITERAL: char = '\0';

/// What is left of [`STEPS_MAX`] for one decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps(u32);

/// A decision would take more work than one may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooCostly;

impl Default for Steps {
    fn default() -> Steps {
        Steps(STEPS_MAX)
    }
}

impl Steps {
    fn take(&mut self) -> Result<(), TooCostly> {
        self.0 = self.0.checked_sub(1).ok_or(TooCostly)?;
        Ok(())
    }
}

/// Whether `text` is what `pattern` describes: `*` is any run of bytes, `?` any one byte.
///
/// Always: at most pattern × text steps, and no more than are left; only the last `*` is ever gone back to.
pub fn matches(pattern: &str, text: &str, steps: &mut Steps) -> Result<bool, TooCostly> {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    steps.take()?;
    while t < text.len() {
        steps.take()?;
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(0) if pattern.get(p + 1) == Some(&text[t]) => {
                p += 2;
                t += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] && byte != 0 => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return Ok(false) };
                p = star_p + 1;
                t = star_t + 1;
                star = Some((star_p, t));
            }
        }
    }
    Ok(pattern[p..].iter().all(|&byte| byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::{matches, Steps, TooCostly};

    #[test]
    fn table() {
        let table = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("s3:Get*", "s3:GetObject", true),
            ("s3:Get*", "s3:PutObject", false),
            ("a**", "a", true),
            ("a\0*", "a*", true),
            ("a\0*", "ab", false),
            ("*\0?b", "xx?b", true),
            ("*\0?b", "xxyb", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches(pattern, text, &mut Steps::default()), Ok(expected), "{pattern} on {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_with_its_steps() {
        let mut steps = Steps::default();
        let pattern = format!("*{}b", "a".repeat(9_000));
        assert_eq!(matches(&pattern, &"a".repeat(85_000), &mut steps), Err(TooCostly));
        assert_eq!(matches("*", "a", &mut steps), Err(TooCostly), "nothing is left for what comes after");
        assert_eq!(matches(&"*a".repeat(200), &"b".repeat(20_000), &mut Steps::default()), Ok(false));
    }
}
