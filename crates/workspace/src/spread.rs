//! Work on many things, spread over all threads.

use crate::walk;
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Has every thread take part after part until there is none left, so that whoever is done sooner does more. What came
/// of each part, in their order, and those who did it.
pub(crate) fn spread<I: Sync, W: Send, T: Send, E: Send + From<io::Error>>(
    items: &[I],
    size: usize,
    begin: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, &[I]) -> Result<T, E> + Sync,
) -> Result<(Vec<T>, Vec<W>), E> {
    let parts: Vec<&[I]> = items.chunks(size.max(1)).collect();
    let next = AtomicUsize::new(0);
    let run = || -> Result<_, E> {
        let (mut worker, mut done) = (begin(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else { return Ok((done, worker)) };
            let result = work(&mut worker, part);
            if result.is_err() {
                next.store(parts.len(), Ordering::Relaxed);
            }
            done.push((number, result?));
        }
    };
    let threads = walk::threads().min(parts.len());
    let ended = if threads < 2 {
        vec![run()]
    } else {
        // All of them new, while this one waits: one that is started by another which goes on working was seen to wait
        // for milliseconds until it got a processor, though there was a free one.
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let died = || Err(io::Error::other("a thread that worked on files died").into());
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect()
        })
    };
    let (mut results, mut workers) = (Vec::new(), Vec::new());
    for one in ended {
        let (done, worker) = one?;
        results.extend(done);
        workers.push(worker);
    }
    results.sort_unstable_by_key(|(number, _)| *number);
    Ok((results.into_iter().map(|(_, result)| result).collect(), workers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once_and_in_order() {
        for count in [0, 1, 7, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let work = |seen: &mut usize, part: &[usize]| {
                *seen += part.len();
                Ok::<_, io::Error>(part.to_vec())
            };
            let (parts, workers) = spread(&items, 3, || 0, work).unwrap();
            assert_eq!(parts.concat(), items);
            assert_eq!(workers.iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn an_error_and_a_death_are_told() {
        let fail = |_: &mut (), part: &[usize]| match part[0] {
            5 => Err(io::Error::other("five")),
            _ => Ok(()),
        };
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(spread(&items, 1, || (), fail).unwrap_err().to_string(), "five");
        let die = |_: &mut (), part: &[usize]| -> io::Result<()> {
            assert!(part[0] != 5, "dies on purpose");
            Ok(())
        };
        if walk::threads() > 1 {
            assert!(spread(&items, 1, || (), die).is_err());
        }
    }
}
