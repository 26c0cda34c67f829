//! A store in this process: `cargo run -p hive-client --features embedded --example embedded -- DIRECTORY`
//! (docs/guides/embedded.md shows it).

use hive_client::embedded::{Batch, Durability, Options, Range, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "example-store".into());
    let store = Store::open(&directory, Options { cores: Some(2), ..Options::default() })?;

    store.put(b"apple", b"red")?; // Strong: on the disk when it returns.
    store.put_with(b"visits", b"1", Durability::Weak)?; // In memory; on the disk within a second.
    assert_eq!(store.get(b"apple")?.as_deref(), Some(&b"red"[..]));

    // All or nothing, whichever cores the keys belong to.
    store.write(Batch::new().put("pear", "green").put("plum", "blue").delete("visits"))?;

    // One instant of all cores: what is written later is not in it.
    let before = store.snapshot()?;
    store.put(b"quince", b"yellow")?;
    assert_eq!(before.get(b"quince")?, None);

    for pair in store.scan(Range::prefix("p"))? {
        let (key, value) = pair?;
        println!("{}\t{}", key.escape_ascii(), value.escape_ascii());
    }
    // Any number of threads, without locks of their own.
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || (0..100u8).try_for_each(|key| store.put_with(&[thread, key], b"x", Durability::Weak)));
        }
    });
    store.flush()?; // Everything so far is on the disk.
    println!("{} pairs, {:?}", store.scan(Range::all())?.count(), store.statistics());
    drop(before);
    store.close()?;
    Ok(())
}
