//! The order in which blocks were refreshed: a doubly linked list through the cells of the table.
//!
//! Kept exact, so what goes first is known and not approximated. All calls are made with the
//! writer lock held; readers never look at it.

use super::table::{Cell, NO_CELL, Table};

pub(super) struct Recency {
    oldest: Cell,
    newest: Cell,
}

impl Recency {
    pub(super) fn new() -> Self {
        Self {
            oldest: NO_CELL,
            newest: NO_CELL,
        }
    }

    pub(super) fn oldest(&self) -> Option<Cell> {
        (self.oldest != NO_CELL).then_some(self.oldest)
    }

    /// Puts an unlinked cell just on the older side of another one; `NO_CELL` makes it the newest.
    pub(super) fn link(&mut self, table: &Table, cell: Cell, newer: Cell) {
        let older = if newer == NO_CELL {
            std::mem::replace(&mut self.newest, cell)
        } else {
            let (older, its_newer) = table.links(newer);
            table.set_links(newer, cell, its_newer);
            older
        };
        table.set_links(cell, older, newer);
        self.set_newer(table, older, cell);
    }

    pub(super) fn unlink(&mut self, table: &Table, cell: Cell) {
        let (older, newer) = table.links(cell);
        self.set_newer(table, older, newer);
        self.set_older(table, newer, older);
    }

    /// Lets `to`, which has a copy of `from`'s links, take its place.
    pub(super) fn replace(&mut self, table: &Table, from: Cell, to: Cell) {
        let (older, newer) = table.links(from);
        self.set_newer(table, older, to);
        self.set_older(table, newer, to);
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
