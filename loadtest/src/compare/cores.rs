//! Which cores this process may use, and who gets which.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The core of the balancer under test, and that of load and engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Cores {
    pub(super) balancer: usize,
    pub(super) load: usize,
}

impl Cores {
    /// As asked for, else the first two that are there.
    pub(super) fn choose(balancer: Option<usize>, load: Option<usize>) -> Result<Self> {
        let allowed = allowed(Path::new("/proc/self/status"))?;
        Self::among(&allowed, balancer, load)
    }

    fn among(allowed: &[usize], balancer: Option<usize>, load: Option<usize>) -> Result<Self> {
        for (option, core) in [("--balancer-core", balancer), ("--load-core", load)] {
            if let Some(core) = core.filter(|core| !allowed.contains(core)) {
                bail!("{option} {core}: this process may use the cores {allowed:?}");
            }
        }
        let other = |taken: Option<usize>| {
            let mut free = allowed.iter().copied().filter(|core| Some(*core) != taken);
            free.next().with_context(|| {
                format!("two cores are needed, this process may use only {allowed:?}; to try the command out, give both --balancer-core and --load-core the same")
            })
        };
        let balancer = balancer.map_or_else(|| other(load), Ok)?;
        let load = load.map_or_else(|| other(Some(balancer)), Ok)?;
        Ok(Self { balancer, load })
    }
}

/// The cores of the process or thread whose `status` this is.
pub(super) fn allowed(status: &Path) -> Result<Vec<usize>> {
    let text = fs::read_to_string(status).with_context(|| status.display().to_string())?;
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(parse).with_context(|| {
        format!(
            "{} has no Cpus_allowed_list that can be read",
            status.display()
        )
    })
}

/// `0-3,8`, as the kernel writes it.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse().ok()?);
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse("\t0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse("7"), Some(vec![7]));
        assert_eq!(parse("0-x"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn each_side_gets_a_core_of_its_own() {
        let choose = |allowed: &[usize], balancer, load| {
            Cores::among(allowed, balancer, load)
                .map(|cores| (cores.balancer, cores.load))
                .map_err(|error| error.to_string())
        };
        assert_eq!(choose(&[2, 5, 6], None, None), Ok((2, 5)));
        assert_eq!(choose(&[2, 5, 6], None, Some(2)), Ok((5, 2)));
        assert_eq!(choose(&[2, 5, 6], Some(5), None), Ok((5, 2)));
        // Only who asks for it gets both on one.
        assert_eq!(choose(&[3], Some(3), Some(3)), Ok((3, 3)));
        let problem = choose(&[3], None, None).unwrap_err();
        assert!(problem.contains("two cores are needed"), "{problem}");
        let problem = choose(&[0, 1], None, Some(4)).unwrap_err();
        assert_eq!(
            problem,
            "--load-core 4: this process may use the cores [0, 1]"
        );
    }
}
