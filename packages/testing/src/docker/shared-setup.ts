import { offerEngine } from "./shared-engine.ts"

/** Offers one engine for the run: starting one takes three seconds of both cores, too long for each file. */
export default offerEngine
