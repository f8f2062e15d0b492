//! A table whose keys go stale when their entry is taken out.

/// Names an entry; a stale ticket never names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Entries under tickets; slots are used again.
#[derive(Debug)]
pub(crate) struct Tickets<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Tickets {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Tickets<T> {
    /// Puts in a value.
    pub fn insert(&mut self, value: T) -> Ticket {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.value = Some(value);
            let generation = entry.generation;
            return Ticket { slot, generation };
        }
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        Ticket {
            slot: (self.slots.len() - 1) as u32,
            generation: 0,
        }
    }

    fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot<T>> {
        self.slots
            .get_mut(ticket.slot as usize)
            .filter(|slot| slot.generation == ticket.generation)
    }

    /// The value, unless the ticket is stale.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.slot(ticket)?.value.as_mut()
    }

    /// Takes the value out; the ticket is stale from now on.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let slot = self.slot(ticket)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(ticket.slot);
        Some(value)
    }
}
