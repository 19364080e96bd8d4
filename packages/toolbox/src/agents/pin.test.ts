import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { OPTIONAL_AGENTS } from "../inputs/optional-agents.ts"
import { readPin } from "./pin.ts"

const LOCK = fileURLToPath(new URL("../../../../package-lock.json", import.meta.url))

interface Lock {
  readonly packages: Readonly<Record<string, { version?: string; integrity?: string }>>
}

describe.each(OPTIONAL_AGENTS)("the pin of %s", (agent) => {
  it("names the version and the hash of every package as package-lock.json has them", async () => {
    const pin = await readPin(agent, import.meta.dirname)
    const tested = (JSON.parse(readFileSync(LOCK, "utf8")) as Lock).packages
    const { "": _, ...pinned } = (JSON.parse(pin.lock) as Lock).packages
    expect(pinned[`node_modules/${pin.adapter}`]?.version).toBe(pin.version)
    for (const [place, { version, integrity }] of Object.entries(pinned)) {
      expect(integrity).toMatch(/^sha512-/)
      expect({ place, version, integrity }).toEqual({
        place,
        version: tested[place]?.version,
        integrity: tested[place]?.integrity,
      })
    }
  })
})
