import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

const ENV = {
  PATH: process.env.PATH ?? "",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example.test",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example.test",
}

/** Runs git, with no settings but its own. */
export const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", args, { cwd, env: ENV, encoding: "utf8", stdio: "pipe" }).trim()

/** Makes a directory that is removed after the test. */
export const temporaryDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "berth-repos-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** Makes another commit, with this name as its message. */
export const commit = (repo: string, name: string): string => {
  git(repo, "commit", "--quiet", "--allow-empty", "-m", name)
  return git(repo, "rev-parse", "HEAD")
}

/** Makes a repo with a branch `main` of two commits. */
export const makeRepo = (...init: string[]) => {
  const path = join(temporaryDirectory(), "repo")
  git("/", "init", "--quiet", "-b", "main", ...init, path)
  const first = commit(path, "first")
  const second = commit(path, "second")
  return { path, first, second }
}
