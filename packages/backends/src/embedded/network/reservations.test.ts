import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { namesOf } from "./names.ts"
import { poolOf } from "./pool.ts"
import { Reservations } from "./reservations.ts"

const names = namesOf(newId.installation())
const NONE: ReadonlySet<string> = new Set()

describe("reservations", () => {
  let directory: string
  const open = (range = "198.18.0.0/16"): Reservations =>
    new Reservations(directory, names, poolOf(range))
  const files = () => [
    ...readdirSync(join(directory, "devices")),
    ...readdirSync(join(directory, "addresses")),
  ]

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "berth-reservations-"))
    onTestFinished(() => rmSync(directory, { recursive: true }))
  })

  it("are found again when the directory is opened again", () => {
    const sandbox = newId.sandbox()
    const reservation = open().attach(open().reserve(sandbox, NONE), ["10.0.0.0/8"])
    expect(open().holder(sandbox)).toEqual(reservation)
    expect(open().reserve(sandbox, NONE)).toEqual(reservation)
    expect(open().all()).toEqual([reservation])
  })

  it("take every address but those of the network, the gateway and the broadcast", () => {
    const reservations = open("198.18.0.0/29")
    const addresses = [1, 2, 3, 4, 5].map(() => reservations.reserve(newId.sandbox(), NONE).address)
    expect(addresses.toSorted()).toEqual([2, 3, 4, 5, 6].map((last) => `198.18.0.${last}`))
    expect(() => reservations.reserve(newId.sandbox(), NONE)).toThrow(/every address/)
  })

  it("leave out addresses that others on the host hold", () => {
    const held = new Set(["198.18.0.2", "198.18.0.4"])
    expect(open("198.18.0.0/29").reserve(newId.sandbox(), held).address).not.toMatch(/\.[24]$/)
  })

  it("leave no file when released, also twice", () => {
    const sandbox = newId.sandbox()
    open().reserve(sandbox, NONE)
    open().release(sandbox)
    open().release(sandbox)
    expect(files()).toEqual([])
  })

  it("are completed after a crash between the two files", () => {
    const reservations = open("198.18.0.0/30")
    const sandbox = newId.sandbox()
    const { address } = reservations.reserve(sandbox, NONE)
    rmSync(join(directory, "addresses", address))
    expect(reservations.reserve(sandbox, NONE).address).toBe(address)
    expect(() => reservations.reserve(newId.sandbox(), NONE)).toThrow(/every address/)
  })

  it("get another address when another sandbox took theirs after such a crash", () => {
    const reservations = open("198.18.0.0/29")
    const [sandbox, other] = [newId.sandbox(), newId.sandbox()]
    const { address } = reservations.reserve(sandbox, NONE)
    const moved = { sandbox: other, device: names.deviceOf(other), address }
    rmSync(join(directory, "addresses", address))
    writeFileSync(join(directory, "devices", moved.device), JSON.stringify(moved))
    symlinkSync(moved.device, join(directory, "addresses", address))
    expect(reservations.reserve(sandbox, NONE).address).not.toBe(address)
    expect(reservations.reserve(other, NONE).address).toBe(address)
    reservations.release(sandbox)
    expect(reservations.reserve(other, NONE).address).toBe(address)
  })

  it("take back an address whose owner is gone", () => {
    const reservations = open("198.18.0.0/30")
    const sandbox = newId.sandbox()
    reservations.reserve(sandbox, NONE)
    rmSync(join(directory, "devices", names.deviceOf(sandbox)))
    expect(reservations.reserve(newId.sandbox(), NONE).address).toBe("198.18.0.2")
  })

  it("forget a file that a power loss has damaged, and its address with it", () => {
    const reservations = open()
    const sandbox = newId.sandbox()
    reservations.reserve(sandbox, NONE)
    writeFileSync(join(directory, "devices", names.deviceOf(sandbox)), "{")
    expect(reservations.all()).toEqual([])
    expect(files()).toEqual([])
  })

  it("do not count a draft that a crash left, and remove it in the end", () => {
    const reservations = open()
    const sandbox = newId.sandbox()
    reservations.reserve(sandbox, NONE)
    writeFileSync(join(directory, "devices", `.${names.deviceOf(sandbox)}`), "{")
    expect(reservations.devices()).toEqual([names.deviceOf(sandbox)])
    reservations.release(sandbox)
    expect(files()).toEqual([])
  })
})
