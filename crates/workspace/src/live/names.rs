//! The names of all files in one piece of memory, so that looking through all of them costs microseconds.

/// A place in the list; it stays the same until the list is packed.
pub(super) type RowId = u32;

#[derive(Clone, Copy)]
struct Row {
    at: usize,
    /// 0: no longer a file.
    len: u32,
    nanos: u32,
    seconds: i64,
}

/// Paths and the times of the files' last changes, in no order.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    dead: usize,
}

/// The newest of those that matched, and how many there were.
pub(super) struct Newest {
    pub(super) rows: Vec<RowId>,
    pub(super) total: usize,
}

impl Names {
    pub(super) fn add(&mut self, path: &[u8], modified: (i64, u32)) -> RowId {
        let row =
            Row { at: self.bytes.len(), len: path.len() as u32, nanos: modified.1, seconds: modified.0 };
        self.bytes.extend_from_slice(path);
        self.rows.push(row);
        self.rows.len() as RowId - 1
    }

    pub(super) fn path(&self, row: RowId) -> &[u8] {
        self.rows.get(row as usize).map_or(&[], |row| self.text(row))
    }

    fn text(&self, row: &Row) -> &[u8] {
        &self.bytes[row.at..row.at + row.len as usize]
    }

    pub(super) fn set_modified(&mut self, row: RowId, modified: (i64, u32)) {
        if let Some(row) = self.rows.get_mut(row as usize) {
            (row.seconds, row.nanos) = modified;
        }
    }

    pub(super) fn remove(&mut self, row: RowId) {
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.len = 0;
            self.dead += 1;
        }
    }

    /// Whether so much is dead that packing pays.
    pub(super) fn is_loose(&self) -> bool {
        self.dead > 1000 && self.dead > self.rows.len() / 2
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<Row>()
    }

    /// Gives back what growing reserved.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// The `limit` newest among those that are `wanted`, newest first, ties by path.
    pub(super) fn newest(&self, limit: usize, wanted: impl Fn(&[u8]) -> bool) -> Newest {
        let matching = self.rows.iter().enumerate().filter(|(_, row)| row.len > 0 && wanted(self.text(row)));
        let mut found: Vec<RowId> = matching.map(|(id, _)| id as RowId).collect();
        let total = found.len();
        let order = |a: &RowId, b: &RowId| {
            let (a, b) = (&self.rows[*a as usize], &self.rows[*b as usize]);
            let newer = (b.seconds, b.nanos).cmp(&(a.seconds, a.nanos));
            newer.then_with(|| self.text(a).cmp(self.text(b)))
        };
        crate::glob::first(&mut found, limit, order);
        Newest { rows: found, total }
    }
}
