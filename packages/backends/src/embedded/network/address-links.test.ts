import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { AddressLinks } from "./address-links.ts"

const ADDRESS = "198.18.0.2"

describe("the links of addresses", () => {
  let directory: string
  let reserved: Map<string, string>
  let links: AddressLinks

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "berth-addresses-"))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    reserved = new Map([
      ["first", ADDRESS],
      ["second", ADDRESS],
    ])
    links = new AddressLinks(directory, (device) => reserved.get(device))
    links.prepare()
  })

  it("give an address to the first device that takes it", () => {
    expect(links.take(ADDRESS, "first")).toBe(true)
    expect(links.take(ADDRESS, "first")).toBe(true)
    expect(links.take(ADDRESS, "second")).toBe(false)
    expect(links.holderOf(ADDRESS)).toBe("first")
  })

  it("give up an address whose device reservations another one", () => {
    links.take(ADDRESS, "first")
    reserved.set("first", "198.18.0.3")
    expect(links.take(ADDRESS, "second")).toBe(true)
    expect(links.holderOf(ADDRESS)).toBe("second")
  })

  it("are released by the device that holds the address alone", () => {
    links.take(ADDRESS, "first")
    links.release(ADDRESS, "second")
    expect(links.holderOf(ADDRESS)).toBe("first")
    links.release(ADDRESS, "first")
    expect(readdirSync(directory)).toEqual([])
  })

  it("are swept where no device reservations the address any more", () => {
    links.take(ADDRESS, "first")
    reserved.set("third", "198.18.0.3")
    links.take("198.18.0.3", "third")
    reserved.delete("first")
    links.sweep()
    expect(readdirSync(directory)).toEqual(["198.18.0.3"])
  })
})
