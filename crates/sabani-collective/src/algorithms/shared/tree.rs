//! The k-nomial tree: in base `radix`, a node's parent is the node with its lowest digit that is not 0
//! set to 0. With radix 2 it is the binomial tree. A node and all below it have numbers that follow each
//! other.

use crate::After;

/// A tree over nodes `0..size`, rooted at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    size: usize,
    radix: usize,
    levels: usize,
}

/// One edge: who is above whom, and which nodes hang on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) parent: usize,
    pub(crate) child: usize,
    /// The node behind the last one of the child's subtree.
    pub(crate) end: usize,
}

impl Tree {
    pub(crate) fn new(size: usize, radix: usize) -> Self {
        // With one as large as the tree all nodes hang on the root: more digits would be steps without edges.
        let radix = radix.clamp(2, size.max(2));
        let mut levels = 0;
        let mut reach = 1_usize;
        while reach < size {
            reach = reach.saturating_mul(radix);
            levels += 1;
        }
        Tree {
            size,
            radix,
            levels,
        }
    }

    /// Number of steps in which each node uses at most one edge.
    pub(crate) fn steps(&self) -> usize {
        self.levels * (self.radix - 1)
    }

    /// The edge of `node` in a step, counted from the leaves.
    pub(crate) fn edge_up(&self, node: usize, step: usize) -> Option<Edge> {
        let (level, digit) = (step / (self.radix - 1), step % (self.radix - 1) + 1);
        let stride = self.radix.pow(level as u32);
        let above = node % stride.saturating_mul(self.radix);
        let child = match above {
            0 => node + digit * stride,
            _ if above == digit * stride => node,
            _ => return None,
        };
        (child < self.size).then(|| Edge {
            parent: child - digit * stride,
            child,
            end: (child + stride).min(self.size),
        })
    }

    /// The edge of `node` in a step, counted from the root.
    pub(crate) fn edge_down(&self, node: usize, step: usize) -> Option<Edge> {
        self.edge_up(node, self.steps() - 1 - step)
    }

    /// What a step of `node`, counted from the root, waits for so that what came from the parent is
    /// there.
    pub(crate) fn after_parent(&self, node: usize, step: usize) -> After {
        let got = self.parent_step_down(node);
        got.map_or(After::NOTHING, |got| After::rounds(step - got))
    }

    /// The step, counted from the root, in which `node` is the child; none for the root.
    fn parent_step_down(&self, node: usize) -> Option<usize> {
        let mut level = 0;
        let mut rest = node;
        while rest != 0 && rest.is_multiple_of(self.radix) {
            rest /= self.radix;
            level += 1;
        }
        (rest != 0).then(|| {
            let up = level * (self.radix - 1) + rest % self.radix - 1;
            self.steps() - 1 - up
        })
    }

    /// The node behind the last one of `node`'s subtree.
    pub(crate) fn end(&self, node: usize) -> usize {
        let mut stride = 1;
        while stride < self.size && node.is_multiple_of(stride * self.radix) {
            stride *= self.radix;
        }
        (node + stride).min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_parent_and_subtrees_follow_each_other() {
        for radix in 2..6 {
            for size in 1..70 {
                let tree = Tree::new(size, radix);
                for node in 0..size {
                    let up = |step: &usize| {
                        tree.edge_down(node, *step)
                            .is_some_and(|edge| edge.child == node)
                    };
                    let steps: Vec<_> = (0..tree.steps()).filter(up).collect();
                    assert_eq!(steps.first().copied(), tree.parent_step_down(node));
                    assert_eq!(steps.len(), usize::from(node > 0));
                    if let Some(edge) = steps.first().and_then(|step| tree.edge_down(node, *step)) {
                        assert_eq!(edge.end, tree.end(node));
                        assert!(edge.parent < node && tree.end(edge.parent) >= edge.end);
                    }
                }
            }
        }
    }
}
