import type { RepoSpec } from "@berth/protocol/workspace"
import { describe, expect, it } from "vitest"
import { plannedRepos, workspaceRepos } from "./repos.ts"

const planned = (...repos: RepoSpec[]) => plannedRepos(workspaceRepos(repos))

describe("the repos of a workspace", () => {
  it.each([
    ["https://example.com/team/app.git", "app"],
    ["https://example.com/team/app/", "app"],
    ["git@example.com:team/app.git", "app"],
    ["git@example.com:app", "app"],
    ["ssh://git@example.com/app.git", "app"],
    ["/srv/repos/app", "app"],
    ["file:///srv/repos/app.git", "app"],
  ])("lie where git would put them: %s in %s", (url, directory) => {
    expect(planned({ url })[0]?.directory).toBe(directory)
  })

  it("are reached from inside, except those of the host, whose paths no sandbox is told", () => {
    const told = planned(
      { url: "https://example.com/a.git", ref: "main" },
      { url: "/srv/b", directory: "deep/b" },
      { url: "file:///srv/with%20space/c" },
    )
    expect(told).toEqual([
      { directory: "a", source: { kind: "remote", url: "https://example.com/a.git" }, ref: "main" },
      { directory: "deep/b", source: { kind: "host" } },
      { directory: "c", source: { kind: "host" } },
    ])
    expect(JSON.stringify(told)).not.toContain("/srv")
  })

  it.each<[string, RepoSpec[]]>([
    ["two in one directory", [{ url: "/a/x" }, { url: "/b/x" }]],
    [
      "one in another",
      [
        { url: "/a", directory: "x" },
        { url: "/b", directory: "x/y" },
      ],
    ],
    ["one without a name", [{ url: "https://example.com/.." }]],
  ])("are refused: %s", (_, repos) => {
    expect(() => workspaceRepos(repos)).toThrow(expect.objectContaining({ code: "input.invalid" }))
  })
})
