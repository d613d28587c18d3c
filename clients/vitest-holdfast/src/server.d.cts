/** The server cannot start, or refuses a control request. */
export class HoldfastError extends Error {}

/** A rule for faults. */
export interface Fault {
  id: number;
  rule: string;
  /** Number of requests that the rule was applied to. */
  injected: number;
  /** Number of requests that the rule still applies to; null without a limit. */
  remaining: number | null;
}

/** The clock of the server. */
export interface Clock {
  time: Date;
  frozen: boolean;
}

/** A response of the API. */
export interface HoldfastResponse {
  status: number;
  /** Headers with names in lower case. */
  headers: Record<string, string | string[] | undefined>;
  text: string;
  json(): any;
}

/** Options of a server. */
export interface StartOptions {
  /** Path of the binary. Default: `HOLDFAST_BINARY`, or `holdfast` in `PATH`. */
  binary?: string;
  /** Directory that a test server has saved. */
  snapshot?: string;
  /** Time at which the clock is frozen. */
  freezeTime?: Date | string;
  /** Rules for faults. */
  faults?: string[];
  /** Other arguments of `holdfast test-server`. */
  args?: string[];
  /** Maximum time until the server accepts requests, in milliseconds. Default: 30,000. */
  timeout?: number;
}

/** A running test server. It ends when this process ends, for any reason. */
export class HoldfastServer {
  private constructor();
  /** Starts a server and waits until it accepts requests. */
  static start(options?: StartOptions): Promise<HoldfastServer>;
  /** The line that the server printed. */
  readonly info: Readonly<Record<string, any>>;
  /** Base URL, also of Git over HTTP. */
  readonly url: string;
  /** Base URL of the API. */
  readonly apiUrl: string;
  /** Username of the administrator. */
  readonly username: string;
  /** Token of the administrator. */
  readonly token: string;
  /** Password of the administrator. */
  readonly password: string;
  /** Stops the server, which removes its data. */
  stop(): Promise<void>;
  /** Sends a request below `/api/v4`, as the administrator or with another token. The body is sent as JSON. */
  request(
    method: string,
    path: string,
    body?: unknown,
    options?: { token?: string; headers?: Record<string, string> },
  ): Promise<HoldfastResponse>;
  /** Restores the data, clock and faults of the start or of the last snapshot, or of another snapshot. */
  reset(snapshot?: string): Promise<void>;
  /** Saves the state, which later resets restore. Without a directory, it is removed with the server. */
  snapshot(directory?: string): Promise<string>;
  /** Returns the clock of the server. */
  clock(): Promise<Clock>;
  /** Freezes the clock at a time. */
  freeze(time: Date | string): Promise<Clock>;
  /** Lets the clock run. */
  unfreeze(): Promise<Clock>;
  /** Advances the frozen clock. */
  advance(seconds: number): Promise<Clock>;
  /** Adds a rule for faults, such as `GET /projects 503 x3`. */
  addFault(rule: string): Promise<Fault>;
  /** Returns the rules for faults. */
  faults(): Promise<Fault[]>;
  /** Removes a rule for faults. */
  removeFault(fault: Fault | number): Promise<void>;
  /** Removes all rules for faults. */
  clearFaults(): Promise<void>;
}
