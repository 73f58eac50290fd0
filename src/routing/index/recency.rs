//! The order in which blocks were refreshed: a doubly linked list through the cells, and the list
//! of free cells.
//!
//! Kept exact, so what goes first is known and not approximated. All calls are made with the
//! writer lock held; readers never look at it.

use super::table::{Cell, NO_CELL, Table};

pub(super) struct Recency {
    oldest: Cell,
    newest: Cell,
    /// Last freed, first used: what a prompt takes was freed together, so it lies together.
    freed: Cell,
    unused: std::ops::Range<Cell>,
}

impl Recency {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            oldest: NO_CELL,
            newest: NO_CELL,
            freed: NO_CELL,
            unused: table.all_cells(),
        }
    }

    pub(super) fn oldest(&self) -> Option<Cell> {
        (self.oldest != NO_CELL).then_some(self.oldest)
    }

    /// From the oldest on.
    pub(super) fn iter<'a>(&self, table: &'a Table) -> impl Iterator<Item = Cell> + use<'a> {
        let next = |&cell: &Cell| Some(table.links(cell).1).filter(|&cell| cell != NO_CELL);
        std::iter::successors(self.oldest(), next)
    }

    /// Takes a cell that belongs to no block.
    pub(super) fn take_free(&mut self, table: &Table) -> Option<Cell> {
        if self.freed == NO_CELL {
            return self.unused.next();
        }
        let cell = self.freed;
        self.freed = table.links(cell).0;
        Some(cell)
    }

    pub(super) fn give_back(&mut self, table: &Table, cell: Cell) {
        table.set_links(cell, self.freed, NO_CELL);
        self.freed = cell;
    }

    /// Puts an unlinked run of cells, linked among themselves, just on the older side of another
    /// cell; `NO_CELL` makes its first the newest.
    pub(super) fn link(&mut self, table: &Table, first: Cell, last: Cell, newer: Cell) {
        let older = if newer == NO_CELL {
            self.newest
        } else {
            table.links(newer).0
        };
        self.set_older(table, newer, first);
        self.set_newer(table, older, last);
        self.set_newer(table, first, newer);
        self.set_older(table, last, older);
    }

    /// Takes a run of cells out.
    pub(super) fn unlink(&mut self, table: &Table, first: Cell, last: Cell) {
        let newer = table.links(first).1;
        let older = table.links(last).0;
        self.set_newer(table, older, newer);
        self.set_older(table, newer, older);
    }

    fn set_newer(&mut self, table: &Table, cell: Cell, newer: Cell) {
        if cell == NO_CELL {
            self.oldest = newer;
        } else {
            table.set_links(cell, table.links(cell).0, newer);
        }
    }

    fn set_older(&mut self, table: &Table, cell: Cell, older: Cell) {
        if cell == NO_CELL {
            self.newest = older;
        } else {
            table.set_links(cell, older, table.links(cell).1);
        }
    }
}
