import { askGit, type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import { hasSubmodules } from "./submodules.ts"

/** An entry of `.gitmodules`, with the commit that is recorded at its path. */
export interface Recorded {
  readonly name: string
  readonly path: string
  readonly commit: string
  readonly url: string
}

/** Reads the entries of `.gitmodules` at whose path a commit is recorded. */
export const recordedIn = async (cwd: string, parts: GitParts): Promise<Recorded[]> => {
  const deadlineMs = LOOK_DEADLINE_MS
  if (!(await hasSubmodules(cwd, parts))) return []
  const which = ["--get-regexp", "^submodule[.].*[.](path|url)$"]
  const list = ["config", "--null", "--no-includes", "--blob=:.gitmodules", ...which] as const
  const listed = (await askGit({ args: list, cwd, deadlineMs }, parts)) ?? ""
  const settings = listed.split("\0").flatMap((entry) => {
    const [, name, key] = /^submodule\.(.+?)\.(path|url)\n/s.exec(entry) ?? []
    const value = entry.slice(entry.indexOf("\n") + 1)
    return name === undefined ? [] : [{ name, key, value }]
  })
  const settingOf = (name: string, key: string) =>
    settings.findLast((setting) => setting.name === name && setting.key === key)?.value
  const entries = [...new Set(settings.map(({ name }) => name))].flatMap((name) => {
    const path = settingOf(name, "path")
    return path === undefined ? [] : [{ name, path, url: settingOf(name, "url") ?? "" }]
  })
  const environment = { GIT_LITERAL_PATHSPECS: "1" }
  const paths = entries.map(({ path }) => path)
  if (paths.length === 0) return []
  const args = ["ls-files", "--stage", "-z", "--", ...paths] as const
  const staged = await git({ args, cwd, deadlineMs, environment }, parts)
  const commits = new Map(
    staged.split("\0").flatMap((entry) => {
      const [, commit, path] = /^160000 ([0-9a-f]+) 0\t(.+)$/s.exec(entry) ?? []
      return commit === undefined || path === undefined ? [] : [[path, commit] as const]
    }),
  )
  return entries.flatMap((entry) => {
    const commit = commits.get(entry.path)
    return commit === undefined ? [] : [{ ...entry, commit }]
  })
}

/** Whether git accepts the entry. It skips names that lead out of a directory, and paths that look like options. */
export const isAllowed = ({ name, path }: Recorded): boolean =>
  !/\p{Cc}/u.test(name) &&
  !name.split("/").some((part) => ["", ".", ".."].includes(part)) &&
  !path.startsWith("-")
