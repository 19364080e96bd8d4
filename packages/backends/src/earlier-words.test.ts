import { expect, it } from "vitest"
import { renamedNote, renamedSpec } from "./earlier-words.ts"

const OLD = "/data/links/sb-0123456789abcdefghjk/inside"
const NEW = "/data/shared/sb-0123456789abcdefghjk/inside"

it("reads the shared directory of a sandbox that an earlier version made", () => {
  const mounts = [
    { kind: "link", target: "/run/berth" },
    { kind: "cache", cache: "npm", target: "/c" },
  ]
  expect(renamedSpec({ config: { mounts, env: {} }, link: OLD })).toEqual({
    config: { mounts: [{ ...mounts[0], kind: "shared" }, mounts[1]], env: {} },
    sharedDirectory: NEW,
  })
  expect(renamedNote({ engineId: "e", link: OLD })).toEqual({ engineId: "e", sharedDirectory: NEW })
})

it("leaves what this version wrote, and what is no spec at all, as it is", () => {
  const spec = { config: { mounts: [{ kind: "shared", target: "/x" }] }, sharedDirectory: NEW }
  for (const each of [spec, null, "x", { config: null }, { config: { mounts: "x" } }]) {
    expect(renamedSpec(each)).toEqual(each)
    expect(renamedNote(each)).toEqual(each)
  }
})
