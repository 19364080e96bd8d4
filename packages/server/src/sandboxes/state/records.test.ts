import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { describe, expect, it, onTestFinished } from "vitest"
import { openRecords } from "./records.ts"

const record = {
  workspace: WorkspaceSpec.parse({ slug: "app", environment: { KEY: "secret" } }),
  mode: "fresh" as const,
}

const open = () => {
  const root = mkdtempSync(join(tmpdir(), "berth-records-"))
  onTestFinished(() => rmSync(root, { recursive: true }))
  return { root, records: openRecords(root), sandbox: newId.sandbox() }
}

describe("records", () => {
  it("are read as they were written, from a file that only its owner may read", async () => {
    const { root, records, sandbox } = open()
    expect(await records.read(sandbox)).toBe(undefined)
    await records.write(sandbox, record)
    expect(await records.read(sandbox)).toEqual(record)
    expect(statSync(join(root, sandbox, "workspace.json")).mode & 0o777).toBe(0o600)
  })

  it("are refused where their file is damaged", async () => {
    const { root, records, sandbox } = open()
    await records.write(sandbox, record)
    writeFileSync(join(root, sandbox, "workspace.json"), "{")
    await expect(records.read(sandbox)).rejects.toMatchObject({ code: "backend.state_damaged" })
  })
})
