use super::*;

#[test]
fn assets_are_small_and_name_nothing_outside() {
    let bytes: usize = ASSETS.iter().map(|asset| asset.body.len()).sum();
    assert!(bytes <= ASSETS_BYTES_MAX, "the console has {bytes} bytes; it may have {ASSETS_BYTES_MAX}");
    for asset in ASSETS {
        // The name of SVG's namespace is no address that anything fetches.
        let text = asset.body.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", "@import", "url("] {
            assert!(!text.contains(outside), "{} holds {outside}", asset.path);
        }
    }
}

#[test]
fn the_page_holds_no_inline_code() {
    let page = asset("/console/").unwrap().body;
    let lower = page.to_lowercase();
    assert_eq!(lower.matches("<script").count(), 1, "one script: the module");
    assert!(lower.contains("<script type=\"module\" src=\"main.js\"></script>"));
    assert!(!lower.contains("<style") && !lower.contains(" style=") && !lower.contains("javascript:"));
    for asset in ASSETS {
        for danger in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "localStorage",
            "document.cookie",
        ] {
            assert!(!asset.body.contains(danger), "{} uses {danger}", asset.path);
        }
        let handler = asset.body.split(" on").skip(1).any(|rest| {
            let word: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
            asset.kind == HTML && !word.is_empty() && rest[word.len()..].starts_with("=\"")
        });
        assert!(!handler, "{} holds a handler in markup", asset.path);
    }
}

#[test]
fn every_import_is_an_asset() {
    for module in ASSETS.iter().filter(|asset| asset.kind == SCRIPT) {
        let folder = module.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for line in module.body.lines().filter(|line| line.starts_with("import ")) {
            let target = line.split('"').nth(1).unwrap_or_else(|| panic!("{}: {line}", module.path));
            let target = match (target.strip_prefix("./"), target.strip_prefix("../")) {
                (Some(beside), _) if folder.is_empty() => beside.to_string(),
                (Some(beside), _) => format!("{folder}/{beside}"),
                (None, Some(above)) => above.to_string(),
                (None, None) => panic!("{}: {target} is no relative path", module.path),
            };
            assert!(ASSETS.iter().any(|asset| asset.path == target), "{} imports {target}", module.path);
        }
    }
}

#[test]
fn only_listed_paths_are_served() {
    for path in ["/console/", "/console/main.js", "/console/views/overview.js"] {
        assert!(asset(path).is_some(), "{path}");
    }
    for path in
        ["/console", "/console/../main.js", "/console/assets/main.js", "/console//", "/", "", "/console/index.html"]
    {
        assert!(asset(path).is_none(), "{path}");
    }
    let policy = HEADERS.iter().find(|(name, _)| *name == "content-security-policy").unwrap().1;
    for part in
        ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(policy.contains(part), "{part}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'));
}
