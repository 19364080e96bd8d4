#!/usr/bin/env node
/**
 * Git's helper for remotes of the scheme `berth-host`, which repos of the host have in the sandbox. Git runs it as
 * `git-remote-berth-host REMOTE URL` for a fetch, a pull or a push, and shows only its error output.
 */
process.stderr.write(
  [
    "fatal: the repo on the host cannot be reached from inside the sandbox.",
    "On the host, in that repo, run:",
    "  berth fetch WORKSPACE    brings the commits made here, as branches berth/WORKSPACE/BRANCH",
    "  berth apply WORKSPACE    brings the uncommitted changes made here",
    "",
  ].join("\n"),
)
process.exitCode = 128
