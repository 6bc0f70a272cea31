//! Both implementations behave alike; the one on etcd goes on through what may happen to etcd and to
//! processes. etcd is a process of each test's own, on free ports and in a directory of its own.

mod befalling;
mod conformance;
mod connecting;
mod etcd_process;
mod processes;
mod tools;
