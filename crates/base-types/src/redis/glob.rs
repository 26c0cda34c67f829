//! Patterns of `SCAN … MATCH`, KEYS and PSUBSCRIBE: `*`, `?`, `[a-z]`, `[^a]`, `\x`.

/// Whether `text` matches. Never more than pattern × text steps: only the last `*` is gone back to.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match (p < pattern.len()).then(|| one(&pattern[p..], text[t])) {
            Some((true, taken)) => (p, t) = (p + taken, t + 1),
            _ => match star {
                None => return false,
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
            },
        }
    }
}

/// Whether the pattern's first element matches the byte, and how long the element is.
fn one(pattern: &[u8], byte: u8) -> (bool, usize) {
    match pattern {
        [b'?', ..] => (true, 1),
        [b'\\', escaped, ..] => (*escaped == byte, 2),
        [b'[', rest @ ..] => {
            let (hit, taken) = class(rest, byte);
            (hit, taken + 1)
        }
        [plain, ..] => (*plain == byte, 1),
        [] => (false, 0),
    }
}

/// The inside of `[…]`; one that is never closed reaches to the pattern's end, as in Redis.
fn class(inside: &[u8], byte: u8) -> (bool, usize) {
    let negated = inside.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    while at < inside.len() && inside[at] != b']' {
        match &inside[at..] {
            [b'\\', escaped, ..] => {
                hit |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                hit |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            _ => {
                hit |= inside[at] == byte;
                at += 1;
            }
        }
    }
    (hit != negated, (at + 1).min(inside.len()))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_redis_has_it() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h*llo", "hllo", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("user:*:x", "user:1:y:x", true),
            ("[", "a", false),
            ("*a*a*b", "aaaaaaaaac", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(!matches(&b"*a".repeat(500), &b"a".repeat(400)));
    }
}
