import { fileQuery } from "@berth/protocol/files"
import {
  GitBundleQuery,
  GitCommitRequest,
  GitDiffQuery,
  GitLogQuery,
  GitQuery,
} from "@berth/protocol/git"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { commitRequest, readQuery } from "./parse.ts"

const odd = fc.constantFrom<unknown>(
  ...["", " ", "x", "a\0b", "a\nb", "<a>", "Ada", ".", "x".repeat(257), "HEAD~2", "-a", "a..b"],
  ...[0, 1, 1000, 1001, 1.5, null, true, false, [], ["x"], [""], ["a\0"], {}, "é", "main@{u}"],
  ...[
    { base64: "/w==" },
    { base64: "" },
    { base64: "AA==" },
    { base64: "?" },
    [{ base64: "/w==" }],
  ],
  ...[{ name: "Ada", email: "a@b" }, { name: "Ada" }, { name: "<", email: "a" }],
)
const record = (...keys: string[]) =>
  fc.record(Object.fromEntries(keys.map((key) => [key, odd])), { requiredKeys: [] })

describe("a client's request about git", () => {
  it("is checked as the schema says", () => {
    const likely = { repo: "shop", message: "words" }
    const commits = record("repo", "message", "author", "all", "paths", "more")
    fc.assert(
      fc.property(commits, fc.boolean(), (given, isLikely) => {
        const value = isLikely ? { ...likely, ...given } : given
        const isRight = commitRequest(value, "body") === undefined
        expect(isRight, JSON.stringify(value)).toBe(GitCommitRequest.safeParse(value).success)
      }),
      { numRuns: 3_000 },
    )
    const author = { name: "Ada L.", email: "ada@example.com" }
    const whole = { ...likely, author, all: true, paths: ["a", { base64: "/w==" }] }
    expect(commitRequest(whole, "body")).toBeUndefined()
    expect(GitCommitRequest.safeParse(whole).success).toBe(true)
  })

  it("is read from a query as the schema says", () => {
    const forms = [
      { schema: GitQuery, read: (query: URLSearchParams) => readQuery(query) },
      {
        schema: GitDiffQuery,
        read: (query: URLSearchParams) => readQuery(query, "base", "head", "path"),
      },
      {
        schema: GitLogQuery,
        read: (query: URLSearchParams) => readQuery(query, "base", "head", "path", "limit"),
      },
      { schema: GitBundleQuery, read: (query: URLSearchParams) => readQuery(query, "ref", "base") },
    ]
    const queries = record("repo", "base", "head", "ref", "path", "limit", "more")
    fc.assert(
      fc.property(fc.constantFrom(...forms), queries, ({ schema, read }, given) => {
        const value = { repo: "shop", ...given }
        const parsed = schema.safeParse(value)
        if (parsed.success) expect(read(fileQuery(value as never))).toEqual(parsed.data)
      }),
      { numRuns: 3_000 },
    )
    for (const wrong of ["", "repo=", "repo=a&base=-x", "repo=a&limit=0", "repo=a&limit=1e2"])
      expect(() => forms[2]?.read(new URLSearchParams(wrong)), wrong).toThrow()
  })
})
