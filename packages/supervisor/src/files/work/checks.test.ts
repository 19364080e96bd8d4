import { FilePath, MakeDirectory, MoveFile, WriteFiles } from "@berth/protocol/files"
import { expect, it } from "vitest"
import { isBytes } from "./bytes.ts"
import { isMakeDirectory, isMoveFile } from "./change.ts"
import { isWriteFiles } from "./write.ts"

const path = "a"
const RIGHT_OR_WRONG = [
  ...[path, { base64: "/w==" }, { base64: "/w=" }, { base64: 1 }, { text: "a" }, 7, null],
  ...[
    { path },
    { path, mode: 0o7777 },
    { path, mode: 0o10000 },
    { path, mode: -1 },
    { path, mode: 1.5 },
  ],
  ...[
    { path, parents: true },
    { path, parents: "true" },
    { path, more: 1 },
  ],
  ...[{ from: "a", to: "b" }, { from: "a" }, { from: "a", to: { base64: "YQ==" }, replace: false }],
  ...[{ from: "a", to: "b", replace: 1 }, { files: [] }, { files: [{ path, content: "" }] }],
  ...[{ files: [{ path, content: { base64: "" }, mode: 1 }], parents: false }],
  ...[{ files: [{ path }] }, { files: {} }, { files: Array(1_001).fill({ path, content: "" }) }],
  ...[{ files: Array(1_000).fill({ path, content: "" }) }],
]

it.each([
  ["paths", FilePath, isBytes],
  ["directories to make", MakeDirectory, isMakeDirectory],
  ["files to move", MoveFile, isMoveFile],
  ["files to write", WriteFiles, isWriteFiles],
])("the worker's checks accept exactly the %s that the schema accepts", (_, schema, check) => {
  for (const value of RIGHT_OR_WRONG)
    expect([value, check(value, "body") === undefined]).toEqual([
      value,
      schema.safeParse(value).success,
    ])
})
