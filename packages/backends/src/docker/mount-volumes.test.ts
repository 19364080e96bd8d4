import { describe, expect, it } from "vitest"
import type { Engine } from "./engine/engine.ts"
import { openMountVolumes } from "./mount-volumes.ts"

const never = new AbortController().signal

describe("volumes that an engine would not remove", () => {
  it("are all tried again, also when the engine refuses one of them again", async () => {
    const refused = new Set(["one", "two", "three"])
    const tried: string[] = []
    const ask: Engine["ask"] = async ({ method, path }, statuses) => {
      const name = path.slice("/volumes/".length)
      if (method === "DELETE") tried.push(name)
      const status = method === "GET" ? 404 : refused.has(name) ? 500 : 204
      if (!statuses.includes(status)) throw new Error(`${name}: ${status}`)
      return { status, body: Buffer.alloc(0), said: "" }
    }
    const volumes = openMountVolumes({ ask } as Engine)
    for (const name of refused) await volumes.remove(name, never)
    refused.delete("two")
    refused.delete("three")
    tried.length = 0
    await expect(volumes.removeLeft(never)).rejects.toThrow("one: 500")
    expect(tried).toEqual(["one", "two", "three"])

    refused.clear()
    tried.length = 0
    await volumes.removeLeft(never)
    expect(tried).toEqual(["one"])
  })
})
