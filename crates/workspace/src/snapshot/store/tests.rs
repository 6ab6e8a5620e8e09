//! What a crash, a failing disk or a damaged pack leaves of a store.

use super::staged::MOST_AHEAD;
use super::*;
use std::collections::HashSet;

fn read(store: &Store, id: Oid) -> Option<Vec<u8>> {
    store.contains(&id).then(|| store.read(&id).unwrap())
}

/// A process is killed after the one wait for the disk and before anything is in its place.
#[test]
fn what_stands_ready_is_put_in_its_place_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let open = || Store::open(root, root).unwrap();
    // One is small enough for the record, the other is not.
    let large: Vec<u8> = (0..MOST_AHEAD as u32).flat_map(|n| (n * 31).to_le_bytes()).collect();
    for content in [&b"content"[..], &large] {
        let id = Kind::Blob.id(content);
        let killed = |whole: bool| {
            let store = open();
            let _alone = store.exclusive().unwrap();
            let mut writer = store.writer();
            writer.put(Kind::Blob, id, content).unwrap();
            let mut staged = store.stage(writer, store.naming("s", &id).into_iter().collect()).unwrap();
            std::mem::forget(staged.write_ahead().unwrap());
            std::mem::forget(staged);
            assert!(Store::is_unfinished(root));
            if !whole {
                let file = File::options().write(true).open(root.join("ahead")).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"?", 4096).unwrap();
            }
        };
        let left = || {
            let names = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            let all = names(root).chain(names(&root.join("objects/pack")));
            all.filter(|name| name.to_string_lossy().starts_with(TEMPORARY)).count()
        };
        killed(false);
        let store = open();
        assert!(store.get_ref("s").unwrap().is_none() && !store.contains(&id));
        assert!(left() == 0 && !Store::is_unfinished(root));
        killed(true);
        let store = open();
        assert_eq!(store.get_ref("s").unwrap(), Some(id));
        assert!(read(&store, id).unwrap() == content);
        assert!(left() == 0 && !Store::is_unfinished(root));
        assert!(store.delete_ref("s").unwrap());
    }
}

/// A pack of its own for what was damaged would give it a checksum that fits.
#[test]
fn what_is_damaged_is_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let contents = [&b"content"[..], b"other"];
    let ids = contents.map(|content| Kind::Blob.id(content));
    let put = |store: &Store, which: &[usize]| {
        let mut writer = store.writer();
        which.iter().for_each(|n| writer.put(Kind::Blob, ids[*n], contents[*n]).unwrap());
        store.stage(writer, Vec::new()).unwrap().publish(Wait::Whole).unwrap();
    };
    for again in [false, true] {
        let store = Store::open(root, root).unwrap();
        put(&store, &[0, 1]);
        let path = store.lock().all[0].path.clone();
        drop(store);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(7).position(|part| part == contents[0]).unwrap();
        bytes[at] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let store = Store::open(root, root).unwrap();
        assert!(!store.contains(&ids[0]) && store.contains(&ids[1]));
        if again {
            put(&store, &[0]);
            assert_eq!(read(&store, ids[0]).unwrap(), contents[0]);
        }
        let all = store.lock().all.clone();
        store.merge(all, &HashSet::from(ids)).unwrap();
        for store in [store, Store::open(root, root).unwrap()] {
            assert_eq!(read(&store, ids[0]).as_deref(), again.then_some(contents[0]));
            assert_eq!(read(&store, ids[1]).unwrap(), contents[1]);
        }
        fs::remove_dir_all(root.join("objects")).unwrap();
    }
}

/// What came after a record stays after a kill; if the power fails, the record is what counts.
#[test]
fn what_was_put_in_its_place_is_not_put_there_again_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let [old, new] = [b"old", b"new"].map(|content| Kind::Blob.id(content));
    for power in [false, true] {
        let store = Store::open(root, root).unwrap();
        let alone = store.exclusive().unwrap();
        for (id, content, wait) in [(old, b"old", Wait::Lasting), (new, b"new", Wait::Covered)] {
            let mut writer = store.writer();
            writer.put(Kind::Blob, id, content).unwrap();
            let draft = store.naming_automatic([(1, id)].into_iter());
            store.stage(writer, vec![draft]).unwrap().publish(wait).unwrap();
        }
        // Killed: nobody sees to it.
        *store.covered() = None;
        drop(alone);
        assert!(Store::is_unfinished(root));
        if power {
            ahead::tests::lose_power(root);
            for pack in fs::read_dir(root.join("objects/pack")).unwrap() {
                File::create(pack.unwrap().path()).unwrap();
            }
            File::create(root.join(PACKED_REFS)).unwrap();
        }
        let next = Store::open(root, root).unwrap();
        let (id, content) = if power { (old, b"old") } else { (new, b"new") };
        assert_eq!(next.automatic().unwrap(), [(1, id)], "{power}");
        assert_eq!(read(&next, id).unwrap(), content);
        assert!(!Store::is_unfinished(root));
    }
}
