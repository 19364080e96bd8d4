import { expect, it } from "vitest"
import { knownPaths } from "./known-paths.ts"

it("knows a hundred thousand paths, and which of them are directories", () => {
  const known = knownPaths()
  for (let at = 0; at < 100_000; at += 1) known.add(`tree/${at}`, at % 3 === 0)
  const wrong = Array.from({ length: 100_000 }, (_, at) => at).filter(
    (at) =>
      known.kindOf(`tree/${at}`) !== (at % 3 === 0 ? "directory" : "other") ||
      known.kindOf(`tree/${at}/x`) !== undefined,
  )
  expect(wrong).toEqual([])
  expect(known.count).toBe(100_000)
})
