import { fileQuery } from "@berth/protocol/files"
import type { Form } from "@berth/protocol/form"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { problemIn } from "../checks/check.ts"
import * as files from "../checks/forms/files.ts"
import * as git from "../checks/forms/git.ts"
import { valueLike } from "../checks/testing/values.ts"
import { readQuery } from "./read-query.ts"

const QUERIES = Object.entries({ ...files, ...git } as Readonly<Record<string, Form>>).filter(
  ([name]) => name.endsWith("Query"),
)

describe("a query", () => {
  it.each(QUERIES)("of the form %s is read as `fileQuery` writes it", (_, form) => {
    fc.assert(
      fc.property(valueLike(form), (value) => {
        // URLs have no lone surrogates.
        if (problemIn(form, value, "query") !== undefined || !JSON.stringify(value).isWellFormed())
          return
        expect(readQuery(fileQuery(value as never), form)).toEqual(value)
      }),
      { numRuns: 200, seed: runSeed() },
    )
  })

  it.each([
    ["", "query.path is missing"],
    ["path=", "query.path is too short"],
    ["path=a&path=b", "path is given more than once"],
    ["path=a&path64=YQ==", "path is given more than once"],
    ["path64=?", "query.path.base64 must be base64"],
    ["path64=AA==", "query.path.base64 must not contain a NUL byte"],
    ["path=a&mode=9", "query.mode is not a whole number"],
    ["path=a&mode=10000", "query.mode is not from 0 to 4095"],
    ["path=a&parents=yes", "query.parents is neither true nor false"],
    ["path=a&parents64=dHJ1ZQ==", "parents64 is unknown here"],
    ["path=a&more=1", "more is unknown here"],
    ["path=a&toString=1", "toString is unknown here"],
  ])("that is wrong is refused with its problem: %s", (text, problem) => {
    const read = () => readQuery(new URLSearchParams(text), files.writeQuery)
    expect(read).toThrow(expect.objectContaining({ code: "input.invalid", message: problem }))
  })
})
